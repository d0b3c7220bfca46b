// Package mutants holds, for every row of test/features/rows.md, small changes of the product that
// break what the row promises, and shows that the tests named for them notice.
//
// In: rows/*.yaml, one file per area, each a list of Mutation. Out: one Result per mutation. The
// source tree is never touched: mutations are compiled with the go command's -overlay, and the
// named tests run in a process of their own. Those that change functions of one package and name
// the same packages of tests share a test binary, in which one of them is on (GANTRY_MUTANT); what
// is not killed in it is run alone. Only a failed assertion whose output matches the expected
// message counts as killed; a compile error, a panic, a hang, a skip or a pass does not.
//
// hack/mutants is the program (`make mutants`). results.jsonl has the last result of each mutation
// with the fingerprint of what it depends on; hack/featurestatus reads it to say which rows are
// proven.
package mutants
