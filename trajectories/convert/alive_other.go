//go:build !unix

package convert

// alive can't tell on this system; what a killed conversion left then stays.
func alive(int) bool { return true }
