package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/preemption"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// evaluator is Gantry's plugins and a cluster in memory.
type evaluator struct {
	snapshot        *snapshot.Cache
	plugins         *schedule.PluginSet
	scoreboards     schedule.Buffers
	cache           *schedule.EquivalenceCache // nil: plain
	reservePlugins  []framework.ReservePlugin  // what reserves a winner's volumes and devices
	preemptionCache preemption.DryRunCache
	rng             *rand.Rand // random start of a search for victims
}

func newEvaluator(plain bool) (*evaluator, error) {
	h, err := newFakeHandle()
	if err != nil {
		return nil, err
	}
	return newEvaluatorFor(plain, h)
}

func newEvaluatorFor(plain bool, h framework.Handle) (*evaluator, error) {
	j, err := plugins.DefaultPluginSet("default-scheduler", h)
	if err != nil {
		return nil, err
	}
	m := &evaluator{snapshot: snapshot.NewCache(), plugins: j, rng: rand.New(rand.NewPCG(1, 0))}
	if !plain {
		m.cache = &schedule.EquivalenceCache{}
	}
	return m, nil
}

func (m *evaluator) in(p *v1.Pod) schedule.Input {
	return schedule.Input{Pod: p, Snapshot: m.snapshot.UpdateSnapshot(), Plugins: m.plugins, Buffers: &m.scoreboards,
		Cache: m.cache}
}

// fakeHandle is a Handle that knows the namespaces of the Pods, which terms with a namespace
// selector read, and nothing else.
type fakeHandle struct {
	framework.Handle
	informers informers.SharedInformerFactory
}

// SharedInformerFactory has the namespaces.
func (h fakeHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }

func newFakeHandle() (framework.Handle, error) {
	f := informers.NewSharedInformerFactory(kubernetes.New(nil), 0)
	for _, name := range []string{"sched-0", "sched-1"} {
		ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: namespaceLabels}}
		if err := f.Core().V1().Namespaces().Informer().GetIndexer().Add(ns); err != nil {
			return nil, err
		}
	}
	return fakeHandle{informers: f}, nil
}

// decide makes one scheduling attempt and its journal fact, and assumes the Pod on its node; false
// if it fits nowhere.
func (m *evaluator) decide(ctx context.Context, p *v1.Pod) (bool, error) {
	in := m.in(p)
	if m.reservePlugins != nil {
		in.State = schedule.NewCycleState()
	}
	r := schedule.SchedulePod(ctx, in)
	r.Fact()
	if !r.Scheduled() {
		if r.Failed() {
			return false, r.Status.AsError()
		}
		return false, nil
	}
	for _, k := range m.reservePlugins {
		if no := k.Reserve(ctx, in.State, p, r.SuggestedHost); !no.IsSuccess() {
			return false, no.AsError()
		}
	}
	return true, m.snapshot.AssumePod(p, r.SuggestedHost)
}

// evict schedules a Pod that needs preemption: an attempt, the search for victims, their deletion,
// a second attempt.
func (m *evaluator) evict(ctx context.Context, p *v1.Pod) (bool, error) {
	in := m.in(p)
	in.State = schedule.NewCycleState()
	r := schedule.SchedulePod(ctx, in)
	if r.Scheduled() {
		return true, m.snapshot.AssumePod(p, r.SuggestedHost)
	}
	again := in
	again.Cache, again.PickTie = nil, m.rng.IntN
	search := preemption.Input{Input: again, NodeToStatus: r.NodeToStatus(), Percent: 10, Absolute: 100}
	if m.cache != nil {
		search.SearchCache = &m.preemptionCache
	}
	choice, err := preemption.Preempt(ctx, search)
	if err != nil || choice.Node == "" {
		return false, err
	}
	for _, v := range choice.Victims {
		m.snapshot.RemovePod(v.UID)
	}
	return m.decide(ctx, p)
}

func inMemory(ctx context.Context, o options) ([]row, error) {
	var rows []row
	err := o.chosen(func(s workload, nodes int) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r, err := s.inMemory(ctx, o, nodes)
		if err == nil {
			rows = append(rows, r)
			fmt.Fprint(os.Stderr, table(rows[len(rows)-1:]))
		}
		return err
	})
	return rows, err
}

// newEvaluator returns an evaluator with what Pods of the shape need; end stops its informers.
func (s *workload) newEvaluator(ctx context.Context, o options, of part) (m *evaluator, end func(), err error) {
	if s.setup == nil {
		m, err = newEvaluator(o.shadow)
		return m, func() {}, err
	}
	h, end, err := s.createFixture(ctx, of.nodes, of.n)
	if err != nil {
		return nil, nil, err
	}
	if m, err = newEvaluatorFor(o.shadow, h); err != nil {
		end()
		return nil, nil, err
	}
	for _, f := range m.plugins.Filter {
		if k, ok := f.(framework.ReservePlugin); ok {
			m.reservePlugins = append(m.reservePlugins, k)
		}
	}
	return m, end, nil
}

func (s *workload) inMemory(ctx context.Context, o options, nodes int) (row, error) {
	n := s.measured(nodes)
	if o.pods > 0 {
		n = o.pods
	}
	m, end, err := s.newEvaluator(ctx, o, part{nodes: nodes, n: n})
	if err != nil {
		return row{}, err
	}
	defer end()
	for i := range nodes {
		m.snapshot.SetNode(s.makeNode(i))
	}
	if s.init != nil {
		for i := range s.init(nodes) {
			p := s.makeInit(i)
			if len(p.Spec.SchedulingGates) > 0 {
				continue
			}
			if _, err := m.decide(ctx, p); err != nil {
				return row{}, err
			}
		}
	}
	r := row{Case: s.name, Nodes: nodes, Pods: n}
	decide := m.decide
	if s.evicts {
		decide = m.evict
	}
	each := make([]time.Duration, 0, n)
	begin, cpu := time.Now(), ownCPU()
	for i := range n {
		p := s.makeMeasured(i, nodes)
		if s.churn && i%200 == 0 { // a node comes and goes, as once a second at 200 Pods/s
			m.snapshot.SetNode(s.makeNode(nodes))
			if i%400 == 0 {
				m.snapshot.RemoveNode(nodeName(nodes))
			}
		}
		from := time.Now()
		ok, err := decide(ctx, p)
		if err != nil {
			return row{}, err
		}
		each = append(each, time.Since(from))
		if ok {
			r.Placed++
		}
	}
	spent := ownCPU() - cpu
	r.took(each, time.Since(begin), spent)
	if spent > 0 {
		r.PerCore = float64(n) / spent.Seconds() // a decision that no node fits is one too
	}
	r.RSS = ownRSS()
	return r, nil
}
