package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gantry-project/gantry/internal/apiserver/auth/rbac"
)

// NodeIdentity returns the node a user speaks for. A user named as a node but outside the group is
// no node.
func NodeIdentity(who user.Info) (name string, isNode bool) {
	if who == nil || !strings.HasPrefix(who.GetName(), "system:node:") || !slices.Contains(who.GetGroups(),
		user.NodesGroup) {
		return "", false
	}
	return strings.TrimPrefix(who.GetName(), "system:node:"), true
}

// Authorizer decides about requests of node agents: allow or no opinion.
type Authorizer struct {
	Graph  *Graph
	Synced func() bool         // whether the index has seen all Pods
	Rules  []rbacv1.PolicyRule // of the role system:node, for what the index says nothing about
	// MaxWait is how long a node may be ahead of the index: it can see its new Pod first. A
	// request that would be refused waits so long for the index to learn better.
	MaxWait time.Duration
	// VolumeHealth lets a node write the status of its CSINode (gate CSIVolumeHealth).
	VolumeHealth bool
}

// Authorize implements authorizer.Authorizer.
func (z *Authorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	node, ok := NodeIdentity(a.GetUser())
	if !ok {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if node == "" {
		return authorizer.DecisionNoOpinion, fmt.Sprintf("unknown node for user %q", a.GetUser().GetName()), nil
	}
	if a.IsResourceRequest() {
		if decide := z.decisionFor(a.GetAPIGroup(), a.GetResource()); decide != nil {
			yes, reason := decide(ctx, node, a)
			if yes {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, reason, nil
		}
	}
	for i := range z.Rules {
		if rbac.RuleAllows(&z.Rules[i], a) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// ConditionsAwareAuthorize implements authorizer.Authorizer: nodes know no conditions.
func (z *Authorizer) ConditionsAwareAuthorize(ctx context.Context,
	a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(z.Authorize(ctx, a))
}

// EvaluateConditions implements authorizer.Authorizer: there are none to evaluate.
func (*Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision,
	authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

type decisionFunc func(ctx context.Context, node string, a authorizer.Attributes) (bool, string)

// decisionFor returns the rule for a resource that is not decided by the role alone; nil for
// others.
func (z *Authorizer) decisionFor(group, resource string) decisionFunc {
	switch group + "/" + resource {
	case "/secrets", "/configmaps":
		return z.authorizeRead
	case "/persistentvolumeclaims":
		return z.authorizeClaim
	case "/persistentvolumes", "resource.k8s.io/resourceclaims", "storage.k8s.io/volumeattachments":
		return z.authorizeGet
	case "/serviceaccounts":
		return z.authorizeCreateToken
	case "/nodes":
		return authorizeNode
	case "/pods":
		return z.authorizePod
	case "coordination.k8s.io/leases":
		return authorizeLease
	case "storage.k8s.io/csinodes":
		return z.authorizeCSINode
	case "resource.k8s.io/resourceslices":
		return z.authorizeResourceSlice
	case "certificates.k8s.io/podcertificaterequests":
		return authorizeCertificate
	}
	return nil
}

func (z *Authorizer) authorizeRelated(ctx context.Context, node string, a authorizer.Attributes) (bool, string) {
	if a.GetName() == "" {
		return false, "No Object name found"
	}
	if z.Synced != nil && !z.Synced() {
		return false, "the relations between nodes and objects are not known yet: try again"
	}
	if !z.hasPath(ctx, node, a) {
		return false, fmt.Sprintf("no relationship found between node '%s' and this object", node)
	}
	return true, ""
}

func (z *Authorizer) hasPath(ctx context.Context, node string, a authorizer.Attributes) bool {
	var limit <-chan time.Time
	for {
		moved := z.Graph.Changed()
		if z.Graph.HasPathFrom(node, a.GetResource(), a.GetNamespace(), a.GetName()) {
			return true
		}
		if z.MaxWait <= 0 {
			return false
		}
		if limit == nil {
			t := time.NewTimer(z.MaxWait)
			defer t.Stop()
			limit = t.C
		}
		select {
		case <-moved:
		case <-limit:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (z *Authorizer) authorizeRead(ctx context.Context, node string, a authorizer.Attributes) (bool, string) {
	switch {
	case a.GetVerb() != "get" && a.GetVerb() != "list" && a.GetVerb() != "watch":
		return false, "can only read resources of this type"
	case a.GetSubresource() != "":
		return false, "cannot read subresource"
	case a.GetNamespace() == "":
		return false, "can only read namespaced object of this type"
	}
	return z.authorizeRelated(ctx, node, a)
}

func (z *Authorizer) authorizeGet(ctx context.Context, node string, a authorizer.Attributes) (bool, string) {
	switch {
	case a.GetVerb() != "get":
		return false, "can only get individual resources of this type"
	case a.GetSubresource() != "":
		return false, "cannot get subresource"
	}
	return z.authorizeRelated(ctx, node, a)
}

func (z *Authorizer) authorizeClaim(ctx context.Context, node string, a authorizer.Attributes) (bool, string) {
	if a.GetSubresource() != "status" {
		return z.authorizeGet(ctx, node, a)
	}
	switch a.GetVerb() {
	case "get", "update", "patch":
		return z.authorizeRelated(ctx, node, a)
	}
	return false, "can only get/update/patch this type"
}

func (z *Authorizer) authorizeCreateToken(ctx context.Context, node string, a authorizer.Attributes) (bool, string) {
	if a.GetVerb() == "get" && a.GetSubresource() == "" { // image credentials and the like are looked up by the account
		return z.authorizeRelated(ctx, node, a)
	}
	if a.GetVerb() != "create" || a.GetSubresource() != "token" {
		return false, "can only create tokens for individual service accounts"
	}
	return z.authorizeRelated(ctx, node, a)
}

func authorizeNode(_ context.Context, node string, a authorizer.Attributes) (bool, string) {
	switch a.GetSubresource() {
	case "":
		switch a.GetVerb() {
		case "create", "update", "patch": // which node, NodeRestriction sees to
			return true, ""
		case "get", "list", "watch":
			switch a.GetName() {
			case node:
				return true, ""
			case "":
				return false, fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", node)
			}
			return false, fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", node, a.GetName())
		}
	case "status":
		if a.GetVerb() == "update" || a.GetVerb() == "patch" {
			return true, ""
		}
	}
	return false, ""
}

func (z *Authorizer) authorizePod(ctx context.Context, node string, a authorizer.Attributes) (bool, string) {
	switch a.GetSubresource() {
	case "":
		switch a.GetVerb() {
		case "get":
			return z.authorizeGet(ctx, node, a)
		case "list", "watch":
			if hasFieldSelector(a, "spec.nodeName", node) {
				return true, ""
			}
			return false, "can only list/watch pods with spec.nodeName field selector"
		case "create", "delete": // of mirror Pods and its own; NodeRestriction sees to it
			return true, ""
		}
	case "status":
		return a.GetVerb() == "update" || a.GetVerb() == "patch", ""
	case "eviction":
		return a.GetVerb() == "create", ""
	}
	return false, ""
}

// hasFieldSelector tells whether a request's field selector demands that a field equals a value.
func hasFieldSelector(a authorizer.Attributes, field, value string) bool {
	reqs, err := a.GetFieldSelector()
	if err != nil {
		return false
	}
	for _, r := range reqs {
		if r.Field == field && (r.Operator == selection.Equals || r.Operator == selection.DoubleEquals) &&
			r.Value == value {
			return true
		}
	}
	return false
}

func authorizeLease(_ context.Context, node string, a authorizer.Attributes) (bool, string) {
	switch a.GetVerb() {
	case "get", "create", "update", "patch", "delete":
	default:
		return false, "can only get, create, update, patch, or delete a node lease"
	}
	if a.GetNamespace() != corev1.NamespaceNodeLease {
		return false, fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	}
	if a.GetVerb() != "create" && a.GetName() != node { // the name of a new one, NodeRestriction sees to
		return false, "can only access node lease with the same name as the requesting node"
	}
	return true, ""
}

func (z *Authorizer) authorizeCSINode(_ context.Context, node string, a authorizer.Attributes) (bool, string) {
	verb := a.GetVerb()
	switch sub := a.GetSubresource(); {
	case sub == "" && !slices.Contains([]string{"get", "create", "update", "patch", "delete"}, verb):
		return false, "can only get, create, update, patch, or delete a CSINode"
	case sub == "status" && !z.VolumeHealth:
		return false, "CSINode status access requires CSIVolumeHealth feature"
	case sub == "status" && !slices.Contains([]string{"get", "update", "patch"}, verb):
		return false, "can only get, update, or patch CSINode status"
	case sub != "" && sub != "status":
		return false, "cannot authorize CSINode subresources"
	}
	if a.GetVerb() != "create" && a.GetName() != node {
		return false, "can only access CSINode with the same name as the requesting node"
	}
	return true, ""
}

func (z *Authorizer) authorizeResourceSlice(ctx context.Context, node string, a authorizer.Attributes) (bool, string) {
	if a.GetSubresource() != "" {
		return false, "cannot authorize ResourceSlice subresources"
	}
	switch a.GetVerb() {
	case "create": // for which node, NodeRestriction sees to
		return true, ""
	case "get", "update", "patch", "delete":
		return z.authorizeRelated(ctx, node, a)
	case "list", "watch", "deletecollection":
		if hasFieldSelector(a, "spec.nodeName", node) {
			return true, ""
		}
		return false, "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return false,
		"only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, " +
			"deletecollection"
}

func authorizeCertificate(_ context.Context, node string, a authorizer.Attributes) (bool, string) {
	if a.GetSubresource() != "" {
		return false, "cannot authorize PodCertificateRequest subresources"
	}
	switch a.GetVerb() {
	case "create": // for which Pod, NodeRestriction sees to
		return true, ""
	case "get", "list", "watch":
		if hasFieldSelector(a, "spec.nodeName", node) {
			return true, ""
		}
		return false, "can only list/watch podcertificaterequests with spec.nodeName field selector"
	}
	return false, "only the following verbs are allowed for a PodCertificateRequest: create, list, watch"
}
