// Command images writes a docker archive with some of the images that examples use: images
// OUTPUT.tar NAME...
package main

import (
	"fmt"
	"os"

	"github.com/gantry-project/gantry/test/images"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: images OUTPUT.tar NAME...; names:")
		for n := range images.Standard() {
			fmt.Fprintln(os.Stderr, " ", n)
		}
		os.Exit(2)
	}
	all := images.Standard()
	for _, n := range os.Args[2:] {
		if all[n] == nil {
			fmt.Fprintf(os.Stderr,
				"images: %s is not one of the names this program knows; run it without arguments for a list\n", n)
			os.Exit(2)
		}
	}
	if err := images.Archive(os.Args[1], images.Select(all, os.Args[2:]...)); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}
