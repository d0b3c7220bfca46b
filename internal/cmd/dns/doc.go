// Package dns is `gantry dns`: the flags of the cluster's DNS server alone, which app runs.
package dns
