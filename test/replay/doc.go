// Package replay sends what upstream was asked to Gantry and compares the answers, masks alike
// (test/recordings; its READMEs say how they were made).
//
// In: recorded cases. Out: per area the share of equal cases, and the differences of each unequal
// one. Masked values in a recording ("<uid>", "<time>", …) match any value in their place.
package replay
