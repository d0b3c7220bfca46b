// Package source reads the cluster that is to be copied: from an API server, within the caller's
// rights, or from files.
//
// Out: typed objects of the kinds that decide about Pods. Secrets and ConfigMaps are never read:
// no decision needs them.
package source
