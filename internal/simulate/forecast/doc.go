// Package forecast is what a simulation foretells: as data, as text, as a picture; stored, and
// compared later with what came.
package forecast
