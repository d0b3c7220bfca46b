package horizontalpodautoscaler

import (
	"math"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// History is what decisions remember of earlier ones. It is not stored: a controller that starts
// again begins with an empty one, as upstream's.
type History struct {
	Recommendations []Recommendation // before stabilization
	ScaleUps        []ScaleEvent
	ScaleDowns      []ScaleEvent
}

// Recommendation is how many replicas the metrics asked for at a time.
type Recommendation struct {
	Replicas int32
	At       time.Time
}

// ScaleEvent is a change of the scale by Replicas, which is positive, at a time.
type ScaleEvent struct {
	Replicas int32
	At       time.Time
}

func (h History) clone() History {
	return History{slices.Clone(h.Recommendations), slices.Clone(h.ScaleUps), slices.Clone(h.ScaleDowns)}
}

// replaceOld puts e in the place of the last entry that is old, or appends it. The history keeps as
// many entries as its longest window had.
func replaceOld[T any](list []T, e T, old func(T) bool) []T {
	for i := len(list) - 1; i >= 0; i-- {
		if old(list[i]) {
			list[i] = e
			return list
		}
	}
	return append(list, e)
}

// addScaleEvent notes a change that was written. Without behaviour nothing asks for it later.
func (h *History) addScaleEvent(b *autoscalingv2.HorizontalPodAutoscalerBehavior, change int32, now time.Time) {
	if b == nil {
		return
	}
	list, rules := &h.ScaleUps, b.ScaleUp
	if change <= 0 {
		list, rules, change = &h.ScaleDowns, b.ScaleDown, -change
	}
	var longest int32
	for _, p := range rules.Policies {
		longest = max(longest, p.PeriodSeconds)
	}
	cutoff := now.Add(-seconds(longest))
	*list = replaceOld(*list, ScaleEvent{change, now}, func(e ScaleEvent) bool { return e.At.Before(cutoff) })
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

const (
	readyForNewScale        = "ReadyForNewScale"
	readyForNewScaleMessage = "recommended size matches current size"
	scaleUpStabilized       = "ScaleUpStabilized"
	scaleUpMessage          = "recent recommendations were lower than current one, applying the lowest recent " +
		"recommendation"
	scaleDownStabilized = "ScaleDownStabilized"
	scaleDownMessage    = "recent recommendations were higher than current one, applying the highest recent " +
		"recommendation"
)

// limit is a count within bounds, and which bound held it.
type limit struct {
	replicas        int32
	reason, message string
}

var (
	inRange = limit{0, "DesiredWithinRange", "the desired count is within the acceptable range"}
	tooFast = limit{0, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"}
	tooMany = limit{0, "TooManyReplicas", "the desired replica count is more than the maximum replica count"}
	tooFew  = limit{0, "TooFewReplicas", "the desired replica count is less than the minimum replica count"}
	tooSlow = limit{0, "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"}
)

func (l limit) at(n int32) limit { l.replicas = n; return l }

// limited writes the ScalingLimited condition and returns the count.
func (d *decision) limited(stable int32, l limit) int32 {
	status := corev1.ConditionFalse
	if l.replicas != stable {
		status = corev1.ConditionTrue
	}
	d.set(autoscalingv2.ScalingLimited, status, l.reason, l.message)
	return l.replicas
}

// normalize stabilizes scaling down over the controller's window, and limits a step up to the
// greater of 4 and twice the current count.
func (d *decision) normalize(desired int32) int32 {
	in, stable := d.in, desired
	cutoff := in.Now.Add(-in.Options.DownscaleStabilization)
	old := func(r Recommendation) bool { return r.At.Before(cutoff) }
	for _, r := range d.history.Recommendations {
		if !old(r) {
			stable = max(stable, r.Replicas)
		}
	}
	d.history.Recommendations = replaceOld(d.history.Recommendations, Recommendation{desired, in.Now}, old)
	if stable != desired {
		d.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, scaleDownStabilized, scaleDownMessage)
	} else {
		d.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, readyForNewScale, readyForNewScaleMessage)
	}
	least, most := in.minReplicas(), tooMany.at(in.HPA.Spec.MaxReplicas)
	if fastest := toInt32(math.Max(2*float64(in.Scale.Spec.Replicas), 4)); fastest < most.replicas {
		most = tooFast.at(fastest)
	}
	switch {
	case stable < least:
		return d.limited(stable, tooFew.at(least))
	case stable > most.replicas:
		return d.limited(stable, most)
	}
	return d.limited(stable, inRange.at(stable))
}

// normalizeByBehavior stabilizes in both directions and limits steps by the policies of the spec.
func (d *decision) normalizeByBehavior(desired int32) int32 {
	in, b := d.in, d.in.HPA.Spec.Behavior
	stable := d.stabilize(desired)
	switch {
	case stable == desired:
		d.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, readyForNewScale, readyForNewScaleMessage)
	case desired >= in.Scale.Spec.Replicas:
		d.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, scaleUpStabilized, scaleUpMessage)
	default:
		d.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, scaleDownStabilized, scaleDownMessage)
	}
	current := in.Scale.Spec.Replicas
	switch {
	case stable > current:
		most := tooMany.at(in.HPA.Spec.MaxReplicas)
		if fastest := max(d.scaleUpLimit(b.ScaleUp), current); fastest < most.replicas {
			most = tooFast.at(fastest)
		}
		if stable > most.replicas {
			return d.limited(stable, most)
		}
	case stable < current:
		least := tooFew.at(in.minReplicas())
		if lowest := min(d.scaleDownLimit(b.ScaleDown), current); lowest > least.replicas {
			least = tooSlow.at(lowest)
		}
		if stable < least.replicas {
			return d.limited(stable, least)
		}
	}
	return d.limited(stable, inRange.at(stable))
}

// stabilize returns the current count, moved as little as the recommendations of the windows up
// and down allow, and notes desired.
func (d *decision) stabilize(desired int32) int32 {
	in, b := d.in, d.in.HPA.Spec.Behavior
	downWindow := time.Duration(int32(in.Options.DownscaleStabilization.Seconds())) * time.Second
	if s := b.ScaleDown.StabilizationWindowSeconds; s != nil {
		downWindow = seconds(*s)
	}
	upWindow := time.Duration(0)
	if s := b.ScaleUp.StabilizationWindowSeconds; s != nil {
		upWindow = seconds(*s)
	}
	up, down := in.Now.Add(-upWindow), in.Now.Add(-downWindow)
	lowest, highest := desired, desired
	for _, r := range d.history.Recommendations {
		if r.At.After(up) {
			lowest = min(lowest, r.Replicas)
		}
		if r.At.After(down) {
			highest = max(highest, r.Replicas)
		}
	}
	d.history.Recommendations = replaceOld(d.history.Recommendations, Recommendation{desired, in.Now},
		func(r Recommendation) bool { return r.At.Before(up) && r.At.Before(down) })
	return min(max(in.Scale.Spec.Replicas, lowest), highest)
}

// within returns the sum of the changes in the last n seconds.
func within(events []ScaleEvent, n int32, now time.Time) (sum int32) {
	for _, e := range events {
		if e.At.After(now.Add(-seconds(n))) {
			sum += e.Replicas
		}
	}
	return sum
}

// atPeriodStart returns how many replicas there were when a policy's period began.
func (d *decision) atPeriodStart(p autoscalingv2.HPAScalingPolicy) int32 {
	return d.in.Scale.Spec.Replicas - within(d.history.ScaleUps, p.PeriodSeconds, d.in.Now) +
		within(d.history.ScaleDowns, p.PeriodSeconds, d.in.Now)
}

// scaleUpLimit returns the count above which the policies allow no scaling up.
func (d *decision) scaleUpLimit(rules *autoscalingv2.HPAScalingRules) int32 {
	var bounds []int32
	for _, p := range rules.Policies {
		start := d.atPeriodStart(p)
		if p.Type == autoscalingv2.PercentScalingPolicy {
			bounds = append(bounds, toInt32(math.Ceil(float64(start)*(1+float64(p.Value)/100))))
		} else {
			bounds = append(bounds, start+p.Value)
		}
	}
	return d.selectPolicy(rules, bounds, slices.Max[[]int32], slices.Min[[]int32])
}

// scaleDownLimit returns the count below which the policies allow no scaling down.
func (d *decision) scaleDownLimit(rules *autoscalingv2.HPAScalingRules) int32 {
	var bounds []int32
	for _, p := range rules.Policies {
		start := d.atPeriodStart(p)
		if p.Type == autoscalingv2.PercentScalingPolicy {
			bounds = append(bounds, toInt32(float64(start)*(1-float64(p.Value)/100)))
		} else {
			bounds = append(bounds, start-p.Value)
		}
	}
	return d.selectPolicy(rules, bounds, slices.Min[[]int32], slices.Max[[]int32])
}

// selectPolicy chooses among the bounds of the policies: widest allows the greatest change.
func (d *decision) selectPolicy(rules *autoscalingv2.HPAScalingRules, bounds []int32,
	widest, narrowest func([]int32) int32) int32 {
	selected := autoscalingv2.MaxChangePolicySelect
	if rules.SelectPolicy != nil {
		selected = *rules.SelectPolicy
	}
	switch {
	case selected == autoscalingv2.DisabledPolicySelect, len(bounds) == 0:
		return d.in.Scale.Spec.Replicas
	case selected == autoscalingv2.MinChangePolicySelect:
		return narrowest(bounds)
	default:
		return widest(bounds)
	}
}
