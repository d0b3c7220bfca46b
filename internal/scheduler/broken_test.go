package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
)

// bad is a plugin that misbehaves for Pods that say so in their label "bad".
type bad struct{ never chan struct{} }

func (*bad) Name() string { return "Bad" }

func (b *bad) do(p *v1.Pod, point string) {
	switch p.Labels["bad"] {
	case point + "-panics":
		panic("out of cheese")
	case point + "-hangs":
		<-b.never
	}
}

func (b *bad) PreFilter(_ context.Context, _ framework.CycleState, p *v1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	b.do(p, "PreFilter")
	return nil, nil
}

func (*bad) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func (b *bad) Filter(_ context.Context, _ framework.CycleState, p *v1.Pod, _ framework.NodeInfo) *framework.Status {
	b.do(p, "Filter")
	return nil
}

func (b *bad) Score(_ context.Context, _ framework.CycleState, p *v1.Pod, _ framework.NodeInfo) (int64, *framework.Status) {
	b.do(p, "Score")
	if p.Labels["bad"] == "Score-nonsense" {
		return 101, nil
	}
	return 0, nil
}

func (*bad) ScoreExtensions() framework.ScoreExtensions { return nil }

func (b *bad) Reserve(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	b.do(p, "Reserve")
	return nil
}

func (b *bad) Unreserve(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) {
	b.do(p, "Reserve")
}

func (b *bad) Permit(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) (*framework.Status, time.Duration) {
	b.do(p, "Permit")
	return nil, 0
}

func (b *bad) PreBindPreFlight(context.Context, framework.CycleState, *v1.Pod, string) (*framework.PreBindPreFlightResult, *framework.Status) {
	return nil, nil
}

func (b *bad) PreBind(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	b.do(p, "PreBind")
	return nil
}

func TestAPluginThatMisbehavesIsNamedAndHurtsNobodyElse(t *testing.T) {
	t.Parallel()
	const hung = `plugin "Bad" has not returned within 50ms`
	const fell = `plugin "Bad" panicked: out of cheese`
	cfg, err := config.Load([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: {multiPoint: {enabled: [{name: Bad}]}}\n"), "Bad")
	if err != nil {
		t.Fatal(err)
	}
	b := &bad{never: make(chan struct{})}
	t.Cleanup(func() { close(b.never) })
	c := start(t, func(o *Options) {
		o.Config, o.Patience = cfg, 50*time.Millisecond
		o.Plugins = map[string]plugins.Factory{"Bad": func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) { return b, nil }}
	}, aNode("n1", "64"), aNode("n2", "64"))
	cases := map[string]string{
		"PreFilter-panics": fell, "Filter-panics": fell, "Score-panics": fell, "Reserve-panics": fell, "Permit-panics": fell, "PreBind-panics": fell,
		"PreFilter-hangs": hung, "Filter-hangs": hung, "Score-hangs": hung, "Reserve-hangs": hung, "Permit-hangs": hung,
		"Score-nonsense": `plugin "Bad" returns an invalid score 101, it should in the range of [0, 100] after normalizing`,
	}
	for name := range cases {
		c.create(aPod(strings.ToLower(name), "1", func(p *v1.Pod) { p.Labels = map[string]string{"bad": name} }))
	}
	c.create(aPod("good", "1"))
	c.bound("good")
	for name, want := range cases {
		c.await(strings.ToLower(name), "refused with "+want, func(p *v1.Pod) bool {
			cond := scheduled(p)
			return cond != nil && cond.Reason == v1.PodReasonSchedulerError && strings.Contains(cond.Message, want)
		})
	}
}
