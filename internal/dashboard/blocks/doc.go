// Package blocks decides how nodes and Pods are shown on the dashboard: one state of each, and what
// it waits for in a line.
//
// In: API objects and the time. Out: values that encode to JSON as the page reads them. What a Pod
// waits for comes from its own status; package explain has the whole answer.
//
// To add a state: a constant, a row of states, and its colour and shape in assets/style.css.
package blocks
