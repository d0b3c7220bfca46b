// Package bootstrappolicy has the ClusterRoles, Roles and bindings of a new cluster, and reconciles
// them at start.
//
// Names and rules are Kubernetes' (level v1.37); roles.txt and controllers.txt say them in a short
// notation (see parse.go). In: what the cluster has now. Out: the roles and bindings that are
// missing or lack something; what an administrator added stays. To add a role: a block in
// roles.txt.
package bootstrappolicy
