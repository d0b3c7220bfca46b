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

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/preempt"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// mind is Gantry's judges and a cluster in memory.
type mind struct {
	world  *snapshot.World
	judges *place.Judges
	boards place.Boards
	memory *place.Memory             // nil: plain
	keep   []framework.ReservePlugin // what a winner's volumes and devices are kept with
	tried  preempt.Memory
	pick   *rand.Rand // where a search for victims begins
}

func newMind(plain bool) (*mind, error) {
	h, err := newHome()
	if err != nil {
		return nil, err
	}
	return newMindOf(plain, h)
}

func newMindOf(plain bool, h framework.Handle) (*mind, error) {
	j, err := plugins.Judges("default-scheduler", h)
	if err != nil {
		return nil, err
	}
	m := &mind{world: snapshot.NewWorld(), judges: j, pick: rand.New(rand.NewPCG(1, 0))}
	if !plain {
		m.memory = &place.Memory{}
	}
	return m, nil
}

func (m *mind) in(p *v1.Pod) place.In {
	return place.In{Pod: p, World: m.world.Freeze(), Judges: m.judges, Boards: &m.boards, Memory: m.memory}
}

// home is a Handle that knows the namespaces of the Pods, which terms with a namespace selector
// read, and nothing else.
type home struct {
	framework.Handle
	known informers.SharedInformerFactory
}

// SharedInformerFactory has the namespaces.
func (h home) SharedInformerFactory() informers.SharedInformerFactory { return h.known }

func newHome() (framework.Handle, error) {
	f := informers.NewSharedInformerFactory(kubernetes.New(nil), 0)
	for _, name := range []string{"sched-0", "sched-1"} {
		ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: teams}}
		if err := f.Core().V1().Namespaces().Informer().GetIndexer().Add(ns); err != nil {
			return nil, err
		}
	}
	return home{known: f}, nil
}

// decide makes one ruling and the fact for the journal, and assumes the Pod where it is to go;
// false when it fits nowhere.
func (m *mind) decide(ctx context.Context, p *v1.Pod) (bool, error) {
	in := m.in(p)
	if m.keep != nil {
		in.State = place.NewState()
	}
	r := place.One(ctx, in)
	r.Fact()
	if !r.Fits() {
		if r.Failed() {
			return false, r.End.AsError()
		}
		return false, nil
	}
	for _, k := range m.keep {
		if no := k.Reserve(ctx, in.State, p, r.Winner); !no.IsSuccess() {
			return false, no.AsError()
		}
	}
	return true, m.world.Assume(p, r.Winner)
}

// evict decides for a Pod that others must leave for: a ruling, the search for victims, their
// leaving, the second ruling.
func (m *mind) evict(ctx context.Context, p *v1.Pod) (bool, error) {
	in := m.in(p)
	in.State = place.NewState()
	r := place.One(ctx, in)
	if r.Fits() {
		return true, m.world.Assume(p, r.Winner)
	}
	again := in
	again.Memory, again.Pick = nil, m.pick.IntN
	search := preempt.In{In: again, Refused: r.Reader(), Percent: 10, Absolute: 100}
	if m.memory != nil {
		search.Tried = &m.tried
	}
	choice, err := preempt.Search(ctx, search)
	if err != nil || choice.Node == "" {
		return false, err
	}
	for _, v := range choice.Victims {
		m.world.RemovePod(v.UID)
	}
	return m.decide(ctx, p)
}

func inMemory(ctx context.Context, o options) ([]row, error) {
	var rows []row
	err := o.chosen(func(s shape, nodes int) error {
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

// mind is a mind that knows what Pods of the shape need; end stops what runs for it.
func (s *shape) mind(ctx context.Context, o options, of part) (m *mind, end func(), err error) {
	if s.setup == nil {
		m, err = newMind(o.shadow)
		return m, func() {}, err
	}
	h, end, err := s.stock(ctx, of.nodes, of.n)
	if err != nil {
		return nil, nil, err
	}
	if m, err = newMindOf(o.shadow, h); err != nil {
		end()
		return nil, nil, err
	}
	for _, f := range m.judges.Filter {
		if k, ok := f.(framework.ReservePlugin); ok {
			m.keep = append(m.keep, k)
		}
	}
	return m, end, nil
}

func (s *shape) inMemory(ctx context.Context, o options, nodes int) (row, error) {
	n := s.measured(nodes)
	if o.pods > 0 {
		n = o.pods
	}
	m, end, err := s.mind(ctx, o, part{nodes: nodes, n: n})
	if err != nil {
		return row{}, err
	}
	defer end()
	for i := range nodes {
		m.world.SetNode(s.makeNode(i))
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
			m.world.SetNode(s.makeNode(nodes))
			if i%400 == 0 {
				m.world.RemoveNode(nodeName(nodes))
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
