package inside_test

import (
	"context"
	"fmt"
	"log"
	"os/exec"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

// A program that carries standard input and output to another place is all a client
// needs; here ssh, with the program installed on the other machine.
func ExampleDial() {
	cmd := exec.Command("ssh", "builder", "hermes-env", inside.Word)
	stream, err := childStream(cmd)
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	client, err := inside.Dial(stream, inside.Options{Dir: "/srv/work"})
	if err != nil {
		log.Fatal(err)
	}
	r, err := client.Exec(context.Background(), sandbox.Command{Script: "make test"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.ExitCode, r.Stdout)
	if err := client.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		log.Fatal(err)
	}
}
