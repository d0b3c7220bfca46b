// Package why is `gantry why`: it has gathered what an answer is made from, has internal/explain
// answer and prints that; a quoted phrase of kubectl describe is explained without a cluster.
package why
