// Package arch holds the tests that keep the tree's story true: the import lattice, the purity of deciding packages, chapter docs, sizes.
//
// Chapter: none; it reads the others. Each failure names the file, the rule and the way to mend it.
// In: the source tree, lattice.txt (who may import whom), budgets.txt (today's exceptions to the size budgets, which may only shrink).
// Out: docs/LIFE_OF_A_POD.md, rendered from the package docs by `go test ./internal/arch -run Chapters -rewrite`.
package arch
