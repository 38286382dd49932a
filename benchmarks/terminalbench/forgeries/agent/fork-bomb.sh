# Leaves processes without end once the tests are there.
daemon "$until_tests"'; b() { b | b & }; b'
