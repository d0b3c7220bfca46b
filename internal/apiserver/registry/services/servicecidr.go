package services

import (
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rangeFinalizer protects a ServiceCIDR whose addresses are in use: upstream's name.
const rangeFinalizer = "networking.k8s.io/service-cidr-finalizer"

// Texts of the condition Ready, upstream's.
const (
	readyMessage       = "Kubernetes Service CIDR is ready"
	terminatingMessage = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a " +
		"new ServiceCIDR"
	terminating = networkingv1.ServiceCIDRReasonTerminating
)

// ServiceCIDRState is all ServiceCIDRs and IPAddresses.
type ServiceCIDRState struct {
	CIDRs       []networkingv1.ServiceCIDR
	IPAddresses []networkingv1.IPAddress
}

// ServiceCIDRUpdate is what to write of a ServiceCIDR; nil fields are up to date.
type ServiceCIDRUpdate struct {
	Status     *networkingv1.ServiceCIDR // with another condition
	Finalizers *networkingv1.ServiceCIDR // with or without the finalizer
}

// SyncServiceCIDR returns the update of one ServiceCIDR. blocked: it is being deleted, but
// addresses of it are in use. Pure.
func SyncServiceCIDR(c *networkingv1.ServiceCIDR, w ServiceCIDRState,
	now metav1.Time) (next ServiceCIDRUpdate, blocked bool) {
	held := slices.Contains(c.Finalizers, rangeFinalizer)
	if c.DeletionTimestamp == nil {
		if !held {
			next.Finalizers = c.DeepCopy()
			next.Finalizers.Finalizers = append(next.Finalizers.Finalizers, rangeFinalizer)
			return next, false
		}
		if !meta.IsStatusConditionTrue(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
			next.Status = withReady(c, metav1.Condition{Status: metav1.ConditionTrue, Message: readyMessage,
				LastTransitionTime: now})
		}
		return next, false
	}
	if !held {
		return next, false
	}
	if inUse(c, w) {
		if r := meta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady); r == nil ||
			r.Status != metav1.ConditionFalse {
			next.Status = withReady(c, metav1.Condition{Status: metav1.ConditionFalse, Reason: terminating,
				Message: terminatingMessage, LastTransitionTime: now})
		}
		return next, true
	}
	next.Finalizers = c.DeepCopy()
	next.Finalizers.Finalizers = slices.DeleteFunc(next.Finalizers.Finalizers,
		func(f string) bool { return f == rangeFinalizer })
	return next, false
}

func withReady(c *networkingv1.ServiceCIDR, ready metav1.Condition) *networkingv1.ServiceCIDR {
	c = c.DeepCopy()
	ready.Type = networkingv1.ServiceCIDRConditionReady
	meta.SetStatusCondition(&c.Status.Conditions, ready)
	return c
}

// inUse reports whether an address lies in a range of c and in no range of another ServiceCIDR that
// is not being deleted.
func inUse(c *networkingv1.ServiceCIDR, w ServiceCIDRState) bool {
	var others []netip.Prefix
	for i := range w.CIDRs {
		if o := &w.CIDRs[i]; o.Name != c.Name && o.DeletionTimestamp == nil {
			others = append(others, Prefixes(o)...)
		}
	}
	isOwnPort := Prefixes(c)
	for _, e := range w.IPAddresses {
		a, err := netip.ParseAddr(e.Name)
		within := func(p netip.Prefix) bool { return p.Contains(a) }
		if err == nil && slices.ContainsFunc(isOwnPort, within) && !slices.ContainsFunc(others, within) {
			return true
		}
	}
	return false
}

// Prefixes returns the valid prefixes of a ServiceCIDR.
func Prefixes(c *networkingv1.ServiceCIDR) (out []netip.Prefix) {
	for _, text := range c.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}
