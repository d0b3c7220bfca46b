package devicetainteviction

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// ruleStatusPeriod is the least time between two writes of a rule's status for the same spec, as
// upstream.
const ruleStatusPeriod = 10 * time.Second

// manager is the field manager of the condition, as upstream's.
const manager = "device-taint-eviction-controller"

// notifyRules requests a status sync of the rules behind a decision.
func (c *controller) notifyRules(k State, v Decision, after time.Duration) {
	for _, r := range k.Rules {
		if slices.ContainsFunc(v.Causes, func(b Cause) bool { return b.Rule == r.UID }) {
			c.queue.AddAfter(ruleKey+r.Name, after)
		}
	}
}

// syncRule writes into a rule's status what it does, or would do.
func (c *controller) syncRule(ctx context.Context, name string) (time.Duration, error) {
	rule, err := c.rules.Get(name)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	was := apimeta.FindStatusCondition(rule.Status.Conditions, resourceapi.DeviceTaintConditionEvictionInProgress)
	now := metav1.Now()
	if was != nil && was.ObservedGeneration == rule.Generation {
		if since := now.Sub(was.LastTransitionTime.Time); since < ruleStatusPeriod {
			return ruleStatusPeriod - max(since, 0), nil
		}
	}
	n, err := c.countRule(rule)
	if err != nil {
		return 0, err
	}
	is := Condition(rule, n)
	if was != nil {
		is.LastTransitionTime = was.LastTransitionTime
		if is == *was {
			return 0, nil
		}
	}
	want := resourceapply.DeviceTaintRule(rule.Name).WithUID(rule.UID).WithStatus(
		resourceapply.DeviceTaintRuleStatus().WithConditions(
			metav1apply.Condition().WithType(is.Type).WithStatus(is.Status).WithReason(is.Reason).WithMessage(
				is.Message).WithObservedGeneration(is.ObservedGeneration).WithLastTransitionTime(now)))
	if _, err := c.controllerContext.Client.ResourceV1().DeviceTaintRules().ApplyStatus(ctx, want,
		metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
		return 0, controllerruntime.IgnoreNotFound(fmt.Errorf("add condition to DeviceTaintRule status: %w", err))
	}
	return 0, nil
}

// countRule counts what a rule does. A rule with effect None is counted as if it evicted.
func (c *controller) countRule(rule *resourceapi.DeviceTaintRule) (Count, error) {
	k, err := c.readState()
	if err != nil {
		return Count{}, err
	}
	c.mu.Lock()
	n := Count{Evicted: c.evicted[rule.UID]}
	c.mu.Unlock()
	switch rule.Spec.Taint.Effect {
	case resourceapi.DeviceTaintEffectNoExecute:
	case resourceapi.DeviceTaintEffectNone:
		would := rule.DeepCopy()
		would.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNoExecute
		k.Rules = append(slices.DeleteFunc(slices.Clone(k.Rules),
			func(r *resourceapi.DeviceTaintRule) bool { return r.UID == rule.UID }), would)
		n.Published, n.Allocated = c.selected(rule)
	default:
		return n, nil
	}
	pods, namespaces := map[types.UID]bool{}, map[string]bool{}
	for _, o := range c.claims.List() {
		for _, key := range podKeysOfClaim(o.(*resourceapi.ResourceClaim)) {
			ns, name, _ := strings.Cut(strings.TrimPrefix(key, podKey), "/")
			p, err := c.pods.Pods(ns).Get(name)
			if err != nil || p.DeletionTimestamp != nil || pods[p.UID] {
				continue
			}
			if slices.ContainsFunc(Decide(p, k).Causes, func(b Cause) bool { return b.Rule == rule.UID }) {
				pods[p.UID], namespaces[ns] = true, true
			}
		}
	}
	n.Pods, n.Namespaces = len(pods), len(namespaces)
	return n, nil
}

// selected counts the devices that a rule selects, published and allocated ones.
func (c *controller) selected(rule *resourceapi.DeviceTaintRule) (published, allocated int) {
	for _, key := range c.slices.ListIndexFuncValues(byPoolIndex) {
		var pool []*resourceapi.ResourceSlice
		all, _ := c.slices.ByIndex(byPoolIndex, key)
		for _, o := range all {
			pool = append(pool, o.(*resourceapi.ResourceSlice))
		}
		for _, s := range newest(pool) {
			for i := range s.Spec.Devices {
				if Selects(rule, s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name) {
					published++
				}
			}
		}
	}
	for _, o := range c.claims.List() {
		claim := o.(*resourceapi.ResourceClaim)
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if Selects(rule, r.Driver, r.Pool, r.Device) {
				allocated++
			}
		}
	}
	return published, allocated
}
