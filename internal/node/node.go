package node

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Condition is the node's condition of the type (upstream: GetNodeCondition), a pointer into the
// Node; nil if it has none.
func Condition(n *v1.Node, t v1.NodeConditionType) *v1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == t {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// ReadyCondition is the node's Ready condition, nil if it has none.
func ReadyCondition(n *v1.Node) *v1.NodeCondition { return Condition(n, v1.NodeReady) }

// NotReadyCondition is the node's Ready condition if it is False or Unknown; nil if it is True, or
// if the node has none.
func NotReadyCondition(n *v1.Node) *v1.NodeCondition {
	if c := ReadyCondition(n); c != nil && c.Status != v1.ConditionTrue {
		return c
	}
	return nil
}

// IsReady tells whether the node's Ready condition is True.
func IsReady(n *v1.Node) bool {
	c := ReadyCondition(n)
	return c != nil && c.Status == v1.ConditionTrue
}

// Reference is how events of a kubelet name its Node: with the name in the place of the UID, as
// upstream's do, so that `kubectl describe node` finds them.
func Reference(name string) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: "Node", Name: name, UID: types.UID(name)}
}
