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
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Case is a decision put together again.
type Case struct {
	*Decision
	config    *schedulerconfig.KubeSchedulerConfiguration
	world     *snapshot.Snapshot
	handle    *handle
	nominated func(string) []framework.PodInfo
}

// Open puts a decision's cluster and configuration together again. The error names the field.
func Open(d *Decision) (*Case, error) {
	c := &Case{Decision: d}
	var err error
	if c.config, err = config.Load(d.Config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if profileOf(c.config, d.Ruling.Profile) == nil {
		return nil, fmt.Errorf("config.profiles: there is no profile %q, which ruling.profile names", d.Ruling.Profile)
	}
	if c.world, err = snapshot.Restored(d.Nodes); err != nil {
		return nil, err
	}
	if c.handle, err = newHandle(d); err != nil {
		return nil, err
	}
	if len(d.Promised) == 0 {
		return c, nil
	}
	promised := map[string][]framework.PodInfo{}
	for node, pods := range d.Promised {
		for _, p := range pods {
			info, _ := snapshot.NewPodInfo(p) // a term that cannot be read binds nobody
			promised[node] = append(promised[node], info)
		}
	}
	c.nominated = func(node string) []framework.PodInfo { return promised[node] }
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

// Verdict is what came of making a decision again.
type Verdict struct {
	Pod         string // namespace/name
	Skipped     string // why the decision was not made again; empty when it was
	Differences []string
	Was, Now    journal.Ruled
}

// Same tells whether nothing differs.
func (v Verdict) Same() bool { return len(v.Differences) == 0 }

// Line prints the verdict.
func (v Verdict) Line() string {
	switch {
	case v.Skipped != "":
		return v.Pod + ": not replayed: " + v.Skipped
	case !v.Same():
		return v.Pod + ": different: " + join(v.Differences)
	}
	return v.Pod + ": same: " + where(v.Now.Winner)
}

// Again rules once more with the recorded configuration, sample and pick.
func (c *Case) Again(ctx context.Context) (Verdict, error) {
	v := Verdict{Pod: pod.Key(c.Pod), Was: c.Ruling}
	p := profileOf(c.config, c.Ruling.Profile)
	if v.Skipped = c.skips(p); v.Skipped != "" {
		return v, nil
	}
	r, err := c.rule(ctx, rules{profile: p, sample: c.Choice.sample(), pick: c.recorded})
	if err != nil {
		return v, fmt.Errorf("config.profiles: %w", err)
	}
	v.Now = r.Fact()
	v.Differences = compare(c.Ruling, v.Now)
	return v, nil
}

// skips says why a decision cannot be made again from what is written down.
func (c *Case) skips(p *schedulerconfig.KubeSchedulerProfile) string {
	if c.Extenders {
		return "extenders had a say, and what they said is not recorded"
	}
	_, absent, err := judges(p, c.handle)
	if err == nil && slices.Contains(absent, c.Ruling.By) {
		return "plugin " + c.Ruling.By + " ended it by what it remembers of other Pods, which is not recorded"
	}
	return ""
}

// recorded is the recorded pick; the first when other nodes share the top score than did.
func (c *Case) recorded(ties int) int {
	if ties == c.Ruling.Ties && c.Choice.Pick < ties {
		return c.Choice.Pick
	}
	return 0
}

// rules are those a case is decided by.
type rules struct {
	profile *schedulerconfig.KubeSchedulerProfile
	sample  place.Sample
	pick    func(int) int
}

func (c *Case) rule(ctx context.Context, by rules) (r *place.Ruling, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("profile %q: a plugin panicked: %v", *by.profile.SchedulerName, v)
		}
	}()
	j, _, err := judges(by.profile, c.handle)
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w", *by.profile.SchedulerName, err)
	}
	return place.One(ctx, place.In{Pod: c.Pod, World: c.world, Judges: j, Sample: by.sample, Pick: by.pick, Nominated: c.nominated}), nil
}

// OtherError is an error of the other configuration, not of the decision.
type OtherError struct{ error }

// Unwrap gives what is wrong.
func (o OtherError) Unwrap() error { return o.error }

// Against rules with the recorded configuration and with another one, and says whether the Pod would have gone elsewhere. Where the other configuration finds
// several nodes equal, the recorded one among them is taken. An OtherError says what is wrong with the other configuration.
func (c *Case) Against(ctx context.Context, other *schedulerconfig.KubeSchedulerConfiguration) (Verdict, error) {
	v, err := c.Again(ctx)
	if err != nil || v.Skipped != "" || !v.Same() {
		return v, err
	}
	p := profileOf(other, c.Ruling.Profile)
	if p == nil {
		return v, OtherError{fmt.Errorf("profiles: there is no profile %q, by which Pod %s was scheduled", c.Ruling.Profile, v.Pod)}
	}
	by := rules{profile: p, sample: c.sampleOf(other, p), pick: func(int) int { return 0 }}
	r, err := c.rule(ctx, by)
	if err != nil {
		return v, OtherError{err}
	}
	if r.Winner != v.Was.Winner && r.Ties > 1 {
		for i, n := range r.Scores(r.Ties) { // with pick 0: those that share the top score, as listed
			if n.Node == v.Was.Winner {
				by.pick = func(int) int { return i }
			}
		}
		if r, err = c.rule(ctx, by); err != nil {
			return v, OtherError{err}
		}
	}
	v.Now = r.Fact()
	v.Differences = moved(v.Was, v.Now)
	return v, nil
}

func (c *Case) sampleOf(cfg *schedulerconfig.KubeSchedulerConfiguration, p *schedulerconfig.KubeSchedulerProfile) place.Sample {
	s, percent := c.Choice.sample(), cfg.PercentageOfNodesToScore
	if p.PercentageOfNodesToScore != nil {
		percent = p.PercentageOfNodesToScore
	}
	if s.Percent = place.Adaptive; percent != nil && *percent != 0 {
		s.Percent = *percent
	}
	return s
}
