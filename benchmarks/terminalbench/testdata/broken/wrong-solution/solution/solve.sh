#!/bin/sh
echo finished >/app/answer.txt
