// Package dashboard is `gantry dashboard`: the address of the cluster's page with a one-time token
// for the person whose kubeconfig it reads, or the page itself for any cluster (--serve).
package dashboard
