// Package arch holds the tests that keep the tree's rules: who may import whom, which packages
// decide without effects, words, sizes, width, state per type, and the pages rendered from the
// code.
//
// In: the source tree, lattice.txt (imports), words.txt (words that are not the field's, with their
// replacements), budgets.txt (today's exceptions to the size budgets, which may only shrink).
// Out: failures that name the file, the rule and the way to mend it; docs/architecture/packages.md,
// rendered from the package docs by `go test ./internal/arch -run Pages -rewrite`.
package arch
