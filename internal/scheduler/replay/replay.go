package replay

import (
	"context"
	"fmt"
	"slices"

	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// ReplayedDecision is a recorded decision with its snapshot and plugins built again.
type ReplayedDecision struct {
	*Decision
	config    *schedulerconfig.KubeSchedulerConfiguration
	snapshot  *snapshot.Snapshot
	handle    *recordedHandle
	nominated func(string) []framework.PodInfo
}

// Open builds a decision's snapshot and configuration again. The error names the field.
func Open(d *Decision) (*ReplayedDecision, error) {
	c := &ReplayedDecision{Decision: d}
	var err error
	if c.config, err = config.Load(d.Config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if profileOf(c.config, d.Result.Profile) == nil {
		return nil, fmt.Errorf("config.profiles: there is no profile %q, which ruling.profile names", d.Result.Profile)
	}
	if c.snapshot, err = snapshot.FromNodeStates(d.Nodes); err != nil {
		return nil, err
	}
	if c.handle, err = newHandle(d); err != nil {
		return nil, err
	}
	if len(d.Nominated) == 0 {
		return c, nil
	}
	nominated := map[string][]framework.PodInfo{}
	for node, pods := range d.Nominated {
		for _, p := range pods {
			info, _ := snapshot.NewPodInfo(p) // a term that cannot be read binds nobody
			nominated[node] = append(nominated[node], info)
		}
	}
	c.nominated = func(node string) []framework.PodInfo { return nominated[node] }
	return c, nil
}

func profileOf(cfg *schedulerconfig.KubeSchedulerConfiguration, name string) *schedulerconfig.KubeSchedulerProfile {
	for i := range cfg.Profiles {
		if *cfg.Profiles[i].SchedulerName == name {
			return &cfg.Profiles[i]
		}
	}
	return nil
}

// Comparison is what came of making a decision again.
type Comparison struct {
	Pod                string // namespace/name
	Skipped            string // why the decision was not made again; empty when it was
	Differences        []string
	Recorded, Replayed journal.Ruled
}

// Equal tells whether nothing differs.
func (v Comparison) Equal() bool { return len(v.Differences) == 0 }

// Line is the outcome in one line.
func (v Comparison) Line() string {
	switch {
	case v.Skipped != "":
		return v.Pod + ": not replayed: " + v.Skipped
	case !v.Equal():
		return v.Pod + ": different: " + join(v.Differences)
	}
	return v.Pod + ": same: " + nodeName(v.Replayed.Winner)
}

// Replay schedules once more with the recorded configuration, sample and pick.
func (c *ReplayedDecision) Replay(ctx context.Context) (Comparison, error) {
	v := Comparison{Pod: pod.Key(c.Pod), Recorded: c.Result}
	p := profileOf(c.config, c.Result.Profile)
	if v.Skipped = c.notReplayable(p); v.Skipped != "" {
		return v, nil
	}
	r, err := c.schedule(ctx, parameters{profile: p, sample: c.Choice.sample(), pick: c.recordedPick})
	if err != nil {
		return v, fmt.Errorf("config.profiles: %w", err)
	}
	v.Replayed = r.Fact()
	v.Differences = compare(c.Result, v.Replayed)
	return v, nil
}

// notReplayable says why a decision cannot be made again from what is written down.
func (c *ReplayedDecision) notReplayable(p *schedulerconfig.KubeSchedulerProfile) string {
	if c.Extenders {
		return "extenders had a say, and what they said is not recorded"
	}
	_, absent, err := newPlugins(p, c.handle)
	if err == nil && slices.Contains(absent, c.Result.By) {
		return "plugin " + c.Result.By + " ended it by what it remembers of other Pods, which is not recorded"
	}
	return ""
}

// recordedPick is the recorded pick; the first when other nodes share the top score than did.
func (c *ReplayedDecision) recordedPick(ties int) int {
	if ties == c.Result.Ties && c.Choice.Pick < ties {
		return c.Choice.Pick
	}
	return 0
}

// parameters are those a case is decided by.
type parameters struct {
	profile *schedulerconfig.KubeSchedulerProfile
	sample  schedule.Sample
	pick    func(int) int
}

func (c *ReplayedDecision) schedule(ctx context.Context, by parameters) (r *schedule.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("profile %q: a plugin panicked: %v", *by.profile.SchedulerName, v)
		}
	}()
	j, _, err := newPlugins(by.profile, c.handle)
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w", *by.profile.SchedulerName, err)
	}
	return schedule.SchedulePod(ctx, schedule.Input{Pod: c.Pod, Snapshot: c.snapshot, Plugins: j, Sample: by.sample,
		PickTie: by.pick, NominatedPodsForNode: c.nominated}), nil
}

// OtherConfigError is an error of the other configuration, not of the decision.
type OtherConfigError struct{ error }

// Unwrap gives what is wrong.
func (o OtherConfigError) Unwrap() error { return o.error }

// CompareConfig schedules with the recorded configuration and with another one, and says whether
// the Pod would have gone elsewhere. Where the other configuration finds several nodes equal, the
// recorded one among them is taken. An OtherConfigError says what is wrong with the other
// configuration.
func (c *ReplayedDecision) CompareConfig(ctx context.Context,
	other *schedulerconfig.KubeSchedulerConfiguration) (Comparison, error) {
	v, err := c.Replay(ctx)
	if err != nil || v.Skipped != "" || !v.Equal() {
		return v, err
	}
	p := profileOf(other, c.Result.Profile)
	if p == nil {
		return v, OtherConfigError{fmt.Errorf("profiles: there is no profile %q, by which Pod %s was scheduled",
			c.Result.Profile, v.Pod)}
	}
	by := parameters{profile: p, sample: c.sample(other, p), pick: func(int) int { return 0 }}
	r, err := c.schedule(ctx, by)
	if err != nil {
		return v, OtherConfigError{err}
	}
	if r.SuggestedHost != v.Recorded.Winner && r.TopScoredNodes > 1 {
		for i, n := range r.Scores(r.TopScoredNodes) { // with pick 0: those that share the top score, as listed
			if n.Node == v.Recorded.Winner {
				by.pick = func(int) int { return i }
			}
		}
		if r, err = c.schedule(ctx, by); err != nil {
			return v, OtherConfigError{err}
		}
	}
	v.Replayed = r.Fact()
	v.Differences = placementDifference(v.Recorded, v.Replayed)
	return v, nil
}

func (c *ReplayedDecision) sample(cfg *schedulerconfig.KubeSchedulerConfiguration,
	p *schedulerconfig.KubeSchedulerProfile) schedule.Sample {
	s, percent := c.Choice.sample(), cfg.PercentageOfNodesToScore
	if p.PercentageOfNodesToScore != nil {
		percent = p.PercentageOfNodesToScore
	}
	if s.Percent = schedule.AdaptivePercentage; percent != nil && *percent != 0 {
		s.Percent = *percent
	}
	return s
}
