//go:build !linux

package local

// fionread is FIONREAD, the same number on every BSD and on macOS.
const fionread = 0x4004667f
