// Package doctor is `gantry doctor`: it has the facts gathered that can be seen from here, has
// internal/doctor check them, and prints the findings. The exit code is 1 when there is a problem.
package doctor
