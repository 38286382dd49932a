// Package hub reads datasets and models from the Hugging Face hub, or a mirror of
// it, into the cache folder that the hub's own Python and JavaScript clients use:
// what one of them fetched is found by the others, online and offline.
//
// Every file is checked against the hash the hub gives before it is taken into the
// cache; partial downloads are resumed; several processes may fetch the same file.
// Errors say what is missing and what to do. The package never uploads, never sends
// the access token to another host than the hub's, never shows it in an error, and
// touches nothing outside its cache folder.
package hub
