// Package forecast is the result of a simulation: as data, as text, as a picture; stored, and
// compared later with what happened.
package forecast
