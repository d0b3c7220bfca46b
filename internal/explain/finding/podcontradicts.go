package finding

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// sharedPorts finds two containers of a Pod that declare one port: they have one network, and the
// second cannot listen there.
func sharedPorts(c *Cluster, o metav1.Object, self Object) []Finding {
	type port struct {
		number   int32
		protocol corev1.Protocol
	}
	severity := Threat
	if c.anyReady(o) {
		severity = Note // one of them does not listen there, whatever it declares
	}
	first := map[port]string{}
	return eachContainer(o, self, func(x place) []Finding {
		if !lasts(x) {
			return nil
		}
		var out []Finding
		for i, p := range x.c.Ports {
			key := port{p.ContainerPort, p.Protocol}
			if key.protocol == "" {
				key.protocol = corev1.ProtocolTCP
			}
			other, taken := first[key]
			if !taken {
				first[key] = x.c.Name
			}
			if !taken || other == x.c.Name {
				continue
			}
			out = append(out, Finding{Code: "PortShared", Severity: severity, Stage: StageRun, Object: self,
				Field: fmt.Sprintf("%s.ports[%d].containerPort", x.at, i), Value: fmt.Sprint(p.ContainerPort),
				Message: fmt.Sprintf("Containers %s and %s of %s %s both declare port %d: containers of a Pod share "+
					"its network, so only one of them can listen there.", other, x.c.Name, self.Kind, self.Name,
					p.ContainerPort), Remedies: []Remedy{{Say: fmt.Sprintf("let container %s listen on another port, "+
					"and declare that", x.c.Name)}}})
		}
		return out
	})
}

// lasts reports whether a container runs beside the others: a sidecar, or none of the init
// containers.
func lasts(x place) bool {
	for i := range x.spec.InitContainers {
		if &x.spec.InitContainers[i] == x.c {
			return pod.IsSidecar(x.c)
		}
	}
	return true
}

// filesTwice finds sources of a projected volume that write one file: the later one's content is
// what is there.
func filesTwice(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil {
		return nil
	}
	var out []Finding
	for i, v := range spec.Volumes {
		if v.Projected == nil {
			continue
		}
		first := map[string]source{}
		for j, s := range v.Projected.Sources {
			for _, file := range c.filesOfSource(s, self.Namespace) {
				earlier, taken := first[file.path]
				first[file.path] = file
				if !taken {
					continue
				}
				f := Finding{Code: "FileTwice", Severity: Threat, Stage: StageVolume, Object: self,
					Field: fmt.Sprintf("%s.volumes[%d].projected.sources[%d]", at, i, j), Value: file.path,
					Message: fmt.Sprintf("Volume %s of %s %s has file %s from two sources, %s and %s: what the later "+
						"one says is there.", v.Name, self.Kind, self.Name, file.path, earlier.of, file.of),
					Remedies: []Remedy{{Say: fmt.Sprintf("give one of them another path, by items of %s", file.of)}}}
				for _, x := range []source{earlier, file} {
					if x.object.Kind != "" {
						f.Related = append(f.Related, x.object)
					}
				}
				out = append(out, f)
			}
		}
	}
	return out
}

// source is a file that a source of a projected volume writes.
type source struct {
	path   string
	of     string // who writes it, for people
	object Object // without a kind: no object does
}

// filesOfSource are the files of one source; none of objects that were not read or are not there.
func (c *Cluster) filesOfSource(s corev1.VolumeProjection, ns string) []source {
	var out []source
	add := func(o Object, v corev1.Volume) {
		files, known := c.filesOf(&v, ns)
		for _, p := range files.paths {
			if known {
				out = append(out, source{p, o.Kind + " " + o.Name, o})
			}
		}
	}
	var v corev1.Volume
	switch {
	case s.ConfigMap != nil:
		v.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: s.ConfigMap.LocalObjectReference,
			Items: s.ConfigMap.Items}
		add(Object{"ConfigMap", ns, s.ConfigMap.Name}, v)
	case s.Secret != nil:
		v.Secret = &corev1.SecretVolumeSource{SecretName: s.Secret.Name, Items: s.Secret.Items}
		add(Object{"Secret", ns, s.Secret.Name}, v)
	case s.DownwardAPI != nil:
		for _, item := range s.DownwardAPI.Items {
			out = append(out, source{path: item.Path, of: "the downward API"})
		}
	case s.ServiceAccountToken != nil:
		out = append(out, source{path: s.ServiceAccountToken.Path, of: "the service account token"})
	case s.ClusterTrustBundle != nil:
		out = append(out, source{path: s.ClusterTrustBundle.Path, of: "the trust bundle"})
	}
	return out
}

// memoryFiles finds volumes in memory that may grow beyond the memory of the containers that write
// them: their files count as the container's memory.
func memoryFiles(c *Cluster, o metav1.Object, self Object) []Finding {
	_, at := podSpecOf(o)
	return eachContainer(o, self, func(x place) []Finding {
		limit, limited := x.c.Resources.Limits[corev1.ResourceMemory]
		who := "container " + x.c.Name + ", which writes it,"
		if r := x.spec.Resources; r != nil && !limited {
			limit, limited = r.Limits[corev1.ResourceMemory]
			who = "the Pod's containers together"
		}
		if !limited {
			return nil
		}
		var out []Finding
		for _, m := range x.c.VolumeMounts {
			v := volumeOf(x.spec, m.Name)
			if v == nil || m.ReadOnly || v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory ||
				v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Cmp(limit) <= 0 {
				continue
			}
			i := indexOfVolume(x.spec, m.Name)
			size := v.EmptyDir.SizeLimit.String()
			out = append(out, Finding{Code: "MemoryFiles", Severity: Threat, Stage: StageRun, Object: self,
				Field: fmt.Sprintf("%s.volumes[%d].emptyDir.sizeLimit", at, i), Value: size,
				Numbers: map[string]string{"sizeLimit": size, "limit": limit.String()},
				Message: fmt.Sprintf("Volume %s of %s %s is in memory and may hold %s, and %s may use %s of "+
					"memory in all: its files count as memory, so a container is killed before the volume is full.",
					m.Name, self.Kind, self.Name, size, who, limit.String()),
				Remedies: []Remedy{{Say: fmt.Sprintf("raise the memory limit of %s above %s, or lower the "+
					"volume's sizeLimit below %s", who, size, limit.String())}}})
		}
		return out
	})
}

// diskFiles finds volumes on the node's disk that may hold more than the limits of ephemeral
// storage of all containers: beyond their sum the Pod is evicted.
func diskFiles(_ *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil || metav1.GetControllerOf(o) != nil {
		return nil
	}
	var sum resource.Quantity
	for i := range spec.Containers {
		limit, limited := spec.Containers[i].Resources.Limits[corev1.ResourceEphemeralStorage]
		if !limited {
			return nil
		}
		sum.Add(limit)
	}
	var out []Finding
	for i := range spec.Volumes {
		e := spec.Volumes[i].EmptyDir
		if e == nil || e.Medium != corev1.StorageMediumDefault || e.SizeLimit == nil || e.SizeLimit.Cmp(sum) <= 0 {
			continue
		}
		size, name := e.SizeLimit.String(), spec.Volumes[i].Name
		out = append(out, Finding{Code: "DiskFiles", Severity: Threat, Stage: StageRun, Object: self,
			Field: fmt.Sprintf("%s.volumes[%d].emptyDir.sizeLimit", at, i), Value: size,
			Numbers: map[string]string{"sizeLimit": size, "limit": sum.String()},
			Message: fmt.Sprintf("Volume %s of %s %s may hold %s, and the containers may use %s of ephemeral "+
				"storage in all (limits), with the files of such volumes: the Pod is evicted before the volume is "+
				"full.", name,
				self.Kind, self.Name, size, sum.String()),
			Remedies: []Remedy{{Say: fmt.Sprintf("raise the limits of ephemeral-storage above %s, or lower the "+
				"volume's sizeLimit below %s", size, sum.String())}}})
	}
	return out
}

func indexOfVolume(s *corev1.PodSpec, name string) int {
	for i := range s.Volumes {
		if s.Volumes[i].Name == name {
			return i
		}
	}
	return -1
}
