// Command sh is the shell of the suite's busybox image: ash, which some tests know by its words;
// bash where the environment has names that ash drops (ConfigMaps and Secrets with keys that are no
// identifiers).
package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
)

func main() {
	identifier := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	program := "/bin/busybox"
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); !identifier.MatchString(name) {
			program = "/bin/bash-static"
		}
	}
	fmt.Fprintln(os.Stderr, os.Args[0]+":", syscall.Exec(program, os.Args, os.Environ()))
	os.Exit(127)
}
