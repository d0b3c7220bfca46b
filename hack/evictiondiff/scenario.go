package main

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The types below are written as JSON; the product's test has the same ones.

// Config is the configuration of evictions.
type Config struct {
	Hard        map[string]string `json:"hard,omitempty"`
	Soft        map[string]string `json:"soft,omitempty"`
	Grace       map[string]string `json:"grace,omitempty"`
	Reclaim     map[string]string `json:"reclaim,omitempty"`
	EnforcePods bool              `json:"enforcePods,omitempty"`
	Transition  int64             `json:"transition"` // seconds
	MaxPodGrace int64             `json:"maxPodGrace"`
	ImageFs     bool              `json:"imageFs,omitempty"`
	SplitFs     bool              `json:"splitFs,omitempty"`
}

// Figures are available, capacity and age in seconds of each signal that is measured.
type Figures map[string][3]int64

// Space is bytes and inodes.
type Space [2]int64

// ContainerUse is what a container takes; nil was not measured.
type ContainerUse struct {
	Name   string `json:"n"`
	Memory *int64 `json:"m,omitempty"`
	Layer  *Space `json:"r,omitempty"`
	Logs   *Space `json:"l,omitempty"`
}

// PodUse is what a Pod takes.
type PodUse struct {
	Memory     *int64           `json:"m,omitempty"`
	Processes  uint64           `json:"p,omitempty"`
	Containers []ContainerUse   `json:"c,omitempty"`
	Volumes    map[string]Space `json:"v,omitempty"`
}

// Step is one look at the node.
type Step struct {
	At      int64             `json:"at"` // seconds since the first look
	Figures Figures           `json:"figures"`
	After   Figures           `json:"after,omitempty"` // once something was reclaimed; nil: the same
	Use     map[string]PodUse `json:"use,omitempty"`   // by the Pod's name
	Answer  Answer            `json:"answer"`
}

// Answer is what upstream does.
type Answer struct {
	Conditions  []string          `json:"conditions,omitempty"`
	Starved     []string          `json:"starved,omitempty"` // signal/grace
	Resource    string            `json:"resource,omitempty"`
	Reclaimed   []string          `json:"reclaimed,omitempty"`
	Signal      string            `json:"signal,omitempty"`
	Order       []string          `json:"order,omitempty"`
	Victim      string            `json:"victim,omitempty"`
	Grace       int64             `json:"grace,omitempty"`
	Message     string            `json:"message,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Scenario is a node and its looks.
type Scenario struct {
	Config Config   `json:"config"`
	Pods   []v1.Pod `json:"pods"`
	Steps  []Step   `json:"steps"`
}

const mi = 1 << 20

// signals with the capacity that this program gives them.
var signals = []struct {
	name     string
	capacity int64
}{
	{"memory.available", 8192 * mi}, {"allocatableMemory.available", 7168 * mi}, {"nodefs.available", 100 << 30},
	{"nodefs.inodesFree", 1_000_000}, {"imagefs.available", 50 << 30}, {"imagefs.inodesFree", 500_000},
	{"containerfs.available", 40 << 30}, {"containerfs.inodesFree", 400_000}, {"pid.available", 32768},
}

// generator makes scenarios.
type generator struct{ *rand.Rand }

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g generator) scenario() Scenario {
	s := Scenario{Config: g.config()}
	pods := 1 + g.IntN(7)
	for i := range pods {
		s.Pods = append(s.Pods, g.pod(i))
	}
	at := int64(0)
	for range 1 + g.IntN(4) {
		step := Step{At: at, Figures: g.figures(s.Config), Use: map[string]PodUse{}}
		if g.chance(40) {
			step.After = g.figures(s.Config)
			if g.chance(50) {
				step.After = plenty()
			}
		}
		for i := range s.Pods {
			if g.chance(93) {
				step.Use[s.Pods[i].Name] = g.use(&s.Pods[i])
			}
		}
		s.Steps = append(s.Steps, step)
		at += []int64{5, 10, 10, 30, 100, 400}[g.IntN(6)]
	}
	return s
}

func (g generator) value(capacity int64) string {
	if g.chance(50) {
		return fmt.Sprintf("%d%%", 2+g.IntN(30))
	}
	if capacity > 1<<30 {
		return fmt.Sprintf("%dMi", capacity/mi*int64(2+g.IntN(30))/100)
	}
	return fmt.Sprint(capacity * int64(2+g.IntN(30)) / 100)
}

func (g generator) config() Config {
	c := Config{Hard: map[string]string{}, Soft: map[string]string{}, Grace: map[string]string{},
		Reclaim: map[string]string{}, EnforcePods: g.chance(60), Transition: int64(g.IntN(3)) * 150,
		MaxPodGrace: int64(g.IntN(3) * 45)}
	switch g.IntN(3) {
	case 0:
		c.ImageFs = true
	case 1:
		c.ImageFs, c.SplitFs = true, true
	}
	for _, s := range signals {
		if s.name == "allocatableMemory.available" && !g.chance(10) {
			continue
		}
		if g.chance(55) {
			c.Hard[s.name] = g.value(s.capacity)
		}
		if g.chance(35) {
			c.Soft[s.name] = g.value(s.capacity)
			c.Grace[s.name] = g.pick("10s", "30s", "1m30s", "2m")
		}
		if g.chance(30) {
			c.Reclaim[s.name] = g.value(s.capacity)
		}
	}
	return c
}

// figures starve one or two signals, and now and then leave one out or say nothing new of it.
func (g generator) figures(c Config) Figures {
	f := Figures{}
	short := map[int]bool{g.IntN(len(signals)): true}
	if g.chance(35) {
		short[g.IntN(len(signals))] = true
	}
	if g.chance(15) {
		short = nil
	}
	for i, s := range signals {
		if g.chance(4) {
			continue
		}
		percent := int64(45 + g.IntN(50))
		if short[i] {
			percent = int64(g.IntN(34))
		}
		age := int64(0)
		if g.chance(8) {
			age = int64(g.IntN(200))
		}
		f[s.name] = [3]int64{s.capacity*percent/100 + int64(g.IntN(1000)), s.capacity, age}
	}
	return f
}

func plenty() Figures {
	f := Figures{}
	for _, s := range signals {
		f[s.name] = [3]int64{s.capacity * 95 / 100, s.capacity, 0}
	}
	return f
}

func (g generator) resources() v1.ResourceRequirements {
	r := v1.ResourceRequirements{Requests: v1.ResourceList{}}
	if g.chance(60) {
		r.Requests[v1.ResourceMemory] = resource.MustParse(g.pick("64Mi", "100Mi", "256Mi", "1Gi", "500M"))
	}
	if g.chance(40) {
		r.Requests[v1.ResourceEphemeralStorage] = resource.MustParse(g.pick("64Mi", "1Gi", "2Gi", "300M"))
	}
	if g.chance(30) {
		r.Requests[v1.ResourceCPU] = resource.MustParse("100m")
	}
	return r
}

func (g generator) pod(i int) v1.Pod {
	p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), Namespace: "ns", UID: types.UID(fmt.Sprintf("u%d", i))}}
	if g.chance(60) {
		n := []int32{-10, 0, 5, 100, 1000}[g.IntN(5)]
		if g.chance(10) {
			n = 2_000_000_000 + int32(g.IntN(2))*1000
		}
		p.Spec.Priority = &n
	}
	if g.chance(6) {
		p.Annotations = map[string]string{"kubernetes.io/config.source": g.pick("file", "http", "api")}
	} else if g.chance(3) {
		p.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"}
	}
	if g.chance(70) {
		n := []int64{0, 1, 30, 300}[g.IntN(4)]
		p.Spec.TerminationGracePeriodSeconds = &n
	}
	always := v1.ContainerRestartPolicyAlways
	for c := range 1 + g.IntN(3) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprintf("c%d", c), Resources: g.resources()})
	}
	if g.chance(25) {
		x := v1.Container{Name: "i0", Resources: g.resources()}
		if g.chance(50) {
			x.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, x)
	}
	if g.chance(15) {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{}}
		if g.chance(80) {
			p.Spec.Resources.Requests[v1.ResourceMemory] = resource.MustParse(g.pick("128Mi", "2Gi"))
		} else {
			p.Spec.Resources.Requests[v1.ResourceCPU] = resource.MustParse("1")
		}
	}
	if g.chance(15) {
		p.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("20Mi")}
	}
	g.volumes(&p)
	return p
}

func (g generator) volumes(p *v1.Pod) {
	add := func(name string, s v1.VolumeSource) {
		if g.chance(35) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: s})
		}
	}
	add("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	add("m", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}})
	add("h", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x"}})
	add("k", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}})
	add("s", v1.VolumeSource{Secret: &v1.SecretVolumeSource{}})
}

func (g generator) space() *Space {
	return &Space{int64(g.IntN(60)) * 25 * mi, int64(g.IntN(400)) * 50}
}

func (g generator) use(p *v1.Pod) PodUse {
	var u PodUse
	sum := int64(0)
	var names []string
	for _, c := range p.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range p.Spec.InitContainers {
		names = append(names, c.Name)
	}
	if g.chance(10) {
		names = append(names, "debugger")
	}
	for _, name := range names {
		c := ContainerUse{Name: name}
		if g.chance(92) {
			n := int64(g.IntN(140)) * 10 * mi
			c.Memory, sum = &n, sum+n
		}
		if g.chance(92) {
			c.Layer = g.space()
		}
		if g.chance(92) {
			c.Logs = g.space()
		}
		u.Containers = append(u.Containers, c)
	}
	if g.chance(95) {
		u.Memory = &sum
	}
	if g.chance(95) {
		u.Processes = uint64(1 + g.IntN(400))
	}
	u.Volumes = map[string]Space{}
	for _, v := range p.Spec.Volumes {
		if g.chance(90) {
			u.Volumes[v.Name] = *g.space()
		}
	}
	return u
}
