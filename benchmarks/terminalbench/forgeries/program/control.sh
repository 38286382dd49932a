# Tries nothing. Where the tests pass, they don't need the programs that are replaced.
