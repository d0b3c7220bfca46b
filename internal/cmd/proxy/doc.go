// Package proxy is `gantry proxy`: the flags of the Service proxy alone, which app runs.
package proxy
