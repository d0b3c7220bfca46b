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
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// Inputs is what a cycle read when it decided.
type Inputs struct {
	Input      schedule.Input
	Pick       int // among equal nodes
	At         time.Time
	Result     journal.Ruled
	Config     json.RawMessage // ProfileConfig
	Selector   string
	Namespaces []*v1.Namespace
	Volumes    volumelisters.Listers // nil: none
	Devices    *Devices              // nil: none were asked for
}

// ProfileConfig is the configuration of one profile as it is written down; cfg is completed.
func ProfileConfig(cfg *schedulerconfig.KubeSchedulerConfiguration, profile int) (json.RawMessage, error) {
	c := &schedulerconfig.KubeSchedulerConfiguration{TypeMeta: cfg.TypeMeta,
		PercentageOfNodesToScore: cfg.PercentageOfNodesToScore, Profiles: cfg.Profiles[profile : profile+1]}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing down the profile %q: %w", *c.Profiles[0].SchedulerName, err)
	}
	return raw, nil
}

// Record makes the decision of what a cycle had. It copies no object.
func Record(t Inputs) *Decision {
	s := t.Input.Sample
	d := &Decision{
		Format: Format, At: t.At, Pod: trimPod(t.Input.Pod), Result: t.Result, Config: t.Config, Selector: t.Selector,
		Extenders: t.Input.Extenders != nil,
		Choice:    Choice{Percent: s.Percent, AtLeast: s.AtLeast, StartsAt: s.StartsAt, Pick: t.Pick},
		Nodes:     t.Input.Snapshot.NodeStates(),
	}
	d.Result.Points = nil
	for i := range d.Nodes {
		n := *d.Nodes[i].Node
		n.ManagedFields = nil
		d.Nodes[i].Node = &n
		for j, p := range d.Nodes[i].Pods {
			d.Nodes[i].Pods[j] = trimPod(p)
		}
	}
	for _, node := range t.Input.NominatedNodes {
		if t.Input.NominatedPodsForNode == nil {
			break
		}
		for _, p := range t.Input.NominatedPodsForNode(node) {
			if d.Nominated == nil {
				d.Nominated = map[string][]*v1.Pod{}
			}
			d.Nominated[node] = append(d.Nominated[node], trimPod(p.GetPod()))
		}
	}
	for _, n := range t.Namespaces {
		d.Objects.Namespaces = append(d.Objects.Namespaces,
			&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}})
	}
	d.Objects.Devices = t.Devices.trimmed()
	if t.Volumes != nil && usesVolumes(t.Input.Pod) {
		g := &objectCollector{Listers: t.Volumes, to: &d.Objects, seen: sets.Set[string]{}}
		g.collectAll(d)
	}
	return d
}

func trimPod(p *v1.Pod) *v1.Pod {
	out := *p
	out.ManagedFields = nil
	return &out
}

// usesVolumes tells whether the Pod has volumes that the volume plugins look at.
func usesVolumes(p *v1.Pod) bool {
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i].VolumeSource; {
		case v.ConfigMap != nil, v.Secret != nil, v.Projected != nil, v.DownwardAPI != nil, v.EmptyDir != nil,
			v.HostPath != nil, v.Image != nil:
		default:
			return true
		}
	}
	return false
}

// objectCollector collects the objects around the volumes of a decision, each once.
type objectCollector struct {
	volumelisters.Listers
	to   *Objects
	seen sets.Set[string]
}

// isNew tells whether an object has not been met before.
func (g *objectCollector) isNew(kind, name string) bool {
	key := kind + "/" + name
	if name == "" || g.seen.Has(key) {
		return false
	}
	g.seen.Insert(key)
	return true
}

func (g *objectCollector) collectAll(d *Decision) {
	g.collectPod(d.Pod)
	for _, pods := range d.Nominated {
		for _, p := range pods {
			g.collectPod(p)
		}
	}
	for _, n := range d.Nodes {
		for _, p := range n.Pods {
			g.collectPod(p)
		}
		name := n.Node.Name
		if csi := g.CSINode(name); csi != nil {
			g.to.CSINodes = append(g.to.CSINodes, csi)
			for _, driver := range csi.Spec.Drivers {
				g.collectDriver(driver.Name)
			}
		}
		for _, a := range g.Attachments(name) {
			g.to.Attachments = append(g.to.Attachments, a)
			if pv := a.Spec.Source.PersistentVolumeName; pv != nil {
				g.collectVolume(*pv)
			}
		}
	}
	g.to.Capacities = g.Capacities()
	for _, c := range g.to.Capacities {
		g.collectClass(c.StorageClassName)
	}
}

func (g *objectCollector) collectPod(p *v1.Pod) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.CSI != nil {
			g.collectDriver(v.CSI.Driver)
		}
		name, _ := pod.ClaimName(p, v)
		if !g.isNew("claim", p.Namespace+"/"+name) || name == "" {
			continue
		}
		c, err := g.Claim(p.Namespace, name)
		if err != nil {
			continue // replay does not find it either
		}
		g.to.Claims = append(g.to.Claims, c)
		g.collectVolume(c.Spec.VolumeName)
		g.collectVolumesFor(c)
	}
}

// collectVolumesFor collects the class of a claim and the volumes it may be bound to.
func (g *objectCollector) collectVolumesFor(c *v1.PersistentVolumeClaim) {
	class := c.Annotations[v1.BetaStorageClassAnnotation]
	if class == "" && c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	g.collectClass(class)
	if c.Spec.VolumeName != "" || !g.isNew("volumes of", class+" ") {
		return
	}
	for _, v := range g.VolumesOfClass(class) {
		g.collectVolume(v.Name)
	}
}

func (g *objectCollector) collectVolume(name string) {
	if !g.isNew("volume", name) {
		return
	}
	v, err := g.Volume(name)
	if err != nil {
		return
	}
	g.to.Volumes = append(g.to.Volumes, v)
	g.collectClass(v.Spec.StorageClassName)
	if v.Spec.CSI != nil {
		g.collectDriver(v.Spec.CSI.Driver)
	}
}

func (g *objectCollector) collectClass(name string) {
	if !g.isNew("class", name) {
		return
	}
	if c, err := g.Class(name); err == nil {
		g.to.Classes = append(g.to.Classes, c)
		g.collectDriver(c.Provisioner)
	}
}

func (g *objectCollector) collectDriver(name string) {
	if !g.isNew("driver", name) {
		return
	}
	if d := g.Driver(name); d != nil {
		g.to.Drivers = append(g.to.Drivers, d)
	}
}

// VolumeListersHolder is what a volume plugin offers, so that what it knows can be written
// down.
type VolumeListersHolder interface{ VolumeListers() volumelisters.Listers }

// VolumeListersOf finds what the plugins of a profile know of volumes; nil when none of them looks
// at volumes.
func VolumeListersOf(j *schedule.PluginSet) volumelisters.Listers {
	for _, f := range j.Filter {
		if k, ok := f.(VolumeListersHolder); ok {
			return k.VolumeListers()
		}
	}
	return nil
}
