package replay

import (
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/storage"
)

// Taken is what a cycle had at hand when it ruled.
type Taken struct {
	In         place.In
	Pick       int // among equal nodes
	At         time.Time
	Fact       journal.Ruled
	Config     json.RawMessage // Configured
	Selector   string
	Namespaces []*v1.Namespace
	Storage    storage.Facts // nil: none
	Devices    *Devices      // nil: none were asked for
}

// Configured is the configuration of one profile as it is written down; cfg is completed.
func Configured(cfg *schedulerconfig.KubeSchedulerConfiguration, profile int) (json.RawMessage, error) {
	c := &schedulerconfig.KubeSchedulerConfiguration{TypeMeta: cfg.TypeMeta, PercentageOfNodesToScore: cfg.PercentageOfNodesToScore, Profiles: cfg.Profiles[profile : profile+1]}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing down the profile %q: %w", *c.Profiles[0].SchedulerName, err)
	}
	return raw, nil
}

// Take makes the decision of what a cycle had. It copies no object.
func Take(t Taken) *Decision {
	s := t.In.Sample
	d := &Decision{
		Format: Format, At: t.At, Pod: slimPod(t.In.Pod), Ruling: t.Fact, Config: t.Config, Selector: t.Selector, Extenders: t.In.Second != nil,
		Choice: Choice{Percent: s.Percent, AtLeast: s.AtLeast, StartsAt: s.StartsAt, Pick: t.Pick}, Nodes: t.In.World.Apart(),
	}
	d.Ruling.Points = nil
	for i := range d.Nodes {
		n := *d.Nodes[i].Node
		n.ManagedFields = nil
		d.Nodes[i].Node = &n
		for j, p := range d.Nodes[i].Pods {
			d.Nodes[i].Pods[j] = slimPod(p)
		}
	}
	for _, node := range t.In.Promised {
		if t.In.Nominated == nil {
			break
		}
		for _, p := range t.In.Nominated(node) {
			if d.Promised == nil {
				d.Promised = map[string][]*v1.Pod{}
			}
			d.Promised[node] = append(d.Promised[node], slimPod(p.GetPod()))
		}
	}
	for _, n := range t.Namespaces {
		d.Objects.Namespaces = append(d.Objects.Namespaces, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}})
	}
	d.Objects.Devices = t.Devices.slim()
	if t.Storage != nil && mounts(t.In.Pod) {
		g := &gatherer{Facts: t.Storage, to: &d.Objects, seen: sets.Set[string]{}}
		g.all(d)
	}
	return d
}

func slimPod(p *v1.Pod) *v1.Pod {
	out := *p
	out.ManagedFields = nil
	return &out
}

// mounts tells whether the Pod has volumes that the judges of volumes look at.
func mounts(p *v1.Pod) bool {
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i].VolumeSource; {
		case v.ConfigMap != nil, v.Secret != nil, v.Projected != nil, v.DownwardAPI != nil, v.EmptyDir != nil, v.HostPath != nil, v.Image != nil:
		default:
			return true
		}
	}
	return false
}

// gatherer collects the objects around the volumes of a decision, each once.
type gatherer struct {
	storage.Facts
	to   *Objects
	seen sets.Set[string]
}

// first tells whether an object has not been met before.
func (g *gatherer) first(kind, name string) bool {
	key := kind + "/" + name
	if name == "" || g.seen.Has(key) {
		return false
	}
	g.seen.Insert(key)
	return true
}

func (g *gatherer) all(d *Decision) {
	g.pod(d.Pod)
	for _, pods := range d.Promised {
		for _, p := range pods {
			g.pod(p)
		}
	}
	for _, n := range d.Nodes {
		for _, p := range n.Pods {
			g.pod(p)
		}
		name := n.Node.Name
		if csi := g.CSINode(name); csi != nil {
			g.to.CSINodes = append(g.to.CSINodes, csi)
			for _, driver := range csi.Spec.Drivers {
				g.driver(driver.Name)
			}
		}
		for _, a := range g.Attachments(name) {
			g.to.Attachments = append(g.to.Attachments, a)
			if pv := a.Spec.Source.PersistentVolumeName; pv != nil {
				g.volume(*pv)
			}
		}
	}
	g.to.Capacities = g.Capacities()
	for _, c := range g.to.Capacities {
		g.class(c.StorageClassName)
	}
}

func (g *gatherer) pod(p *v1.Pod) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.CSI != nil {
			g.driver(v.CSI.Driver)
		}
		name, _ := storage.ClaimName(p, v)
		if !g.first("claim", p.Namespace+"/"+name) || name == "" {
			continue
		}
		c, err := g.Claim(p.Namespace, name)
		if err != nil {
			continue // replay does not find it either
		}
		g.to.Claims = append(g.to.Claims, c)
		g.volume(c.Spec.VolumeName)
		g.volumesFor(c)
	}
}

// volumesFor collects the class of a claim and the volumes it may be bound to.
func (g *gatherer) volumesFor(c *v1.PersistentVolumeClaim) {
	class := c.Annotations[v1.BetaStorageClassAnnotation]
	if class == "" && c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	g.class(class)
	if c.Spec.VolumeName != "" || !g.first("volumes of", class+" ") {
		return
	}
	for _, v := range g.VolumesOf(class) {
		g.volume(v.Name)
	}
}

func (g *gatherer) volume(name string) {
	if !g.first("volume", name) {
		return
	}
	v, err := g.Volume(name)
	if err != nil {
		return
	}
	g.to.Volumes = append(g.to.Volumes, v)
	g.class(v.Spec.StorageClassName)
	if v.Spec.CSI != nil {
		g.driver(v.Spec.CSI.Driver)
	}
}

func (g *gatherer) class(name string) {
	if !g.first("class", name) {
		return
	}
	if c, err := g.Class(name); err == nil {
		g.to.Classes = append(g.to.Classes, c)
		g.driver(c.Provisioner)
	}
}

func (g *gatherer) driver(name string) {
	if !g.first("driver", name) {
		return
	}
	if d := g.Driver(name); d != nil {
		g.to.Drivers = append(g.to.Drivers, d)
	}
}

// KnowsVolumes is what the judge of volumes offers, so that what it knows can be written down.
type KnowsVolumes interface{ Facts() storage.Facts }

// FactsOf finds what the judges of a profile know of volumes; nil when none of them looks at volumes.
func FactsOf(j *place.Judges) storage.Facts {
	for _, f := range j.Filter {
		if k, ok := f.(KnowsVolumes); ok {
			return k.Facts()
		}
	}
	return nil
}
