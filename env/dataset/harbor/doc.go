// Package harbor reads tasks in the Harbor format: folders with task.toml,
// instruction.md, environment/, tests/ and solution/, on their own, in collections and in git
// checkouts, and the rows of a dataset that pack such folders into columns.
//
// Everything a task states is checked when it is read, and every problem is reported with file,
// line and key; one broken task does not hide the others. Task folders and archives are
// foreign content: nothing in them is executed, links are not followed out of them, and unpacking
// is bounded. The package runs no git and no container engine, reads no environment variable
// but through the function it is given, and writes only where it is told to unpack.
package harbor
