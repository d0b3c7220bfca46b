// Command random changes the deciding packages at random, a small change at a time, and counts how
// many the tests notice.
//
//	random [-packages podplan,control/] [-n 60] [-seed 1] [-left] [-again] [-parallel N]
//	random -list         print what it would change
//	random -survivors    print the changes that no test noticed, from the last results
//	random -page         render docs/contributing/mutants.md from the last results
//
// packages.txt names the packages. Changes (mutations): a condition negated, a comparison's bound
// moved, == and != exchanged, && and || exchanged, a statement left out (a call, an assignment,
// ++, --, break, continue), a number raised by one, a string changed, a returned error or pointer
// or list replaced by nil, an early return left out, a returned bool flipped, an appended element
// dropped. Calls that log or lock are left alone.
//
// A package is compiled once with all its mutations, each behind a test of the environment variable
// GANTRY_MUTANT, by the go command's -overlay: the tree is never touched. A first run of every test
// tells which mutations it reaches; then each mutation is run with those tests alone. One that no
// test reaches survives without a run. A failed test kills; a panic and a hang are counted apart,
// as noticed without an assertion. Results are kept in build/random-mutants.json: a run that was
// broken off goes on there. equivalent.yaml lists mutations that change nothing, with the reason.
package main
