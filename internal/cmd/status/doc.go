// Package status is `gantry status`: the map of a cluster's parts, who talks to whom, and how each
// is.
package status
