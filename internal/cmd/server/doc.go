// Package server is `gantry server`: the flags of the API server alone, which app runs.
package server
