// Package compare puts two runs over the same items side by side: the paired
// difference of their scores with its interval, exact tests, and the items whose
// result changed.
//
// Items are the unit: attempts of one item are averaged first, so that many
// attempts at few items never look like much evidence. What has no partner or no
// score is reported, never dropped in silence. The package reads no files and
// prints nothing.
package compare
