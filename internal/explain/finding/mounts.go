package finding

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mounts finds a subPath of a ConfigMap or Secret that is no key of it, and files without the bit
// that lets a container run them.
func mounts(c *Cluster, o metav1.Object, self Object) []Finding {
	return eachContainer(o, self, func(x place) []Finding {
		var out []Finding
		for i, m := range x.c.VolumeMounts {
			v := volumeOf(x.spec, m.Name)
			if v == nil {
				continue
			}
			files, known := c.filesOf(v, self.Namespace)
			field := fmt.Sprintf("%s.volumeMounts[%d].subPath", x.at, i)
			if m.SubPath != "" && known && !slices.ContainsFunc(files.paths, func(p string) bool {
				return p == m.SubPath || strings.HasPrefix(p, m.SubPath+"/")
			}) {
				out = append(out, c.subPath(x, m, field, files))
			}
			if f, ok := notExecutable(x, m, files); known && ok {
				out = append(out, f)
			}
		}
		return out
	})
}

func volumeOf(s *corev1.PodSpec, name string) *corev1.Volume {
	for i := range s.Volumes {
		if s.Volumes[i].Name == name {
			return &s.Volumes[i]
		}
	}
	return nil
}

// files are those of a volume from a ConfigMap or Secret, with their modes.
type files struct {
	paths []string
	modes map[string]int32 // of files that have one of their own
	mode  int32            // of the others
	of    Object
}

// modeOf is the mode of a file.
func (f files) modeOf(path string) int32 {
	if mode, own := f.modes[path]; own {
		return mode
	}
	return f.mode
}

// filesOf returns the files of a volume; known is false for other volumes and objects not read.
func (c *Cluster) filesOf(v *corev1.Volume, ns string) (out files, known bool) {
	var items []corev1.KeyToPath
	out.mode = 0o644
	set := func(m *int32) {
		if m != nil {
			out.mode = *m
		}
	}
	switch {
	case v.ConfigMap != nil:
		out.of, items = Object{"ConfigMap", ns, v.ConfigMap.Name}, v.ConfigMap.Items
		set(v.ConfigMap.DefaultMode)
	case v.Secret != nil:
		out.of, items = Object{"Secret", ns, v.Secret.SecretName}, v.Secret.Items
		set(v.Secret.DefaultMode)
	default:
		return out, false
	}
	for _, item := range items {
		out.paths = append(out.paths, item.Path)
		if item.Mode != nil {
			if out.modes == nil {
				out.modes = map[string]int32{}
			}
			out.modes[item.Path] = *item.Mode
		}
	}
	o := c.Get(out.of)
	if o == nil || len(items) > 0 {
		return out, o != nil
	}
	out.paths, known = keysOf(o)
	return out, known
}

// FilesOf are the paths of a volume from a ConfigMap or Secret; known is false for other volumes,
// and for objects that were not read.
func (c *Cluster) FilesOf(v *corev1.Volume, namespace string) (paths []string, known bool) {
	f, known := c.filesOf(v, namespace)
	return f.paths, known
}

// GivesNoToken reports whether a ServiceAccount keeps its token from its Pods.
func (c *Cluster) GivesNoToken(o Object) bool {
	x, ok := c.Get(o).(*corev1.ServiceAccount)
	return ok && x.AutomountServiceAccountToken != nil && !*x.AutomountServiceAccountToken
}

func (c *Cluster) subPath(x place, m corev1.VolumeMount, field string, v files) Finding {
	what, paths := v.of, v.paths
	f := Finding{Code: "SubPathMissing", Stage: StageVolume, Object: x.self, Field: field, Value: m.SubPath,
		Related: []Object{what}, Message: fmt.Sprintf("Container %s mounts %s of volume %s (%s), and %s %s has %s.",
			x.c.Name, m.SubPath, m.Name, field, what.Kind, what.Name, orNone(paths, "nothing"))}
	if near, how := Near(m.SubPath, paths); near != "" {
		f.Want = near
		f.Message += fmt.Sprintf(" Perhaps %s was meant; %s.", near, how)
		f.Remedies = []Remedy{{Say: "mount " + near, Run: c.replaceCommand(x.self, field, near)}}
	}
	return f
}

// notExecutable finds a container whose command is a file of a volume that has no bit to run it.
func notExecutable(x place, m corev1.VolumeMount, v files) (Finding, bool) {
	if len(x.c.Command) == 0 {
		return Finding{}, false
	}
	run, what := x.c.Command[0], v.of
	file, below := strings.CutPrefix(run, strings.TrimSuffix(m.MountPath, "/")+"/")
	if run == m.MountPath {
		file, below = "", m.SubPath != ""
	}
	file = path.Join(m.SubPath, file)
	mode := v.modeOf(file)
	if !below || !slices.Contains(v.paths, file) || mode&0o111 != 0 {
		return Finding{}, false
	}
	return Finding{Code: "NotExecutable", Stage: StageRun, Object: x.self, Field: x.at + ".command[0]", Value: run,
		Want: "0755", Related: []Object{what}, Numbers: map[string]string{"mode": fmt.Sprintf("%04o", mode)},
		Message: fmt.Sprintf("Container %s runs %s, which is of %s %s, mounted with mode %04o: nobody may run it. Its "+
			"volume %s needs defaultMode 0755.", x.c.Name, run, what.Kind, what.Name, mode, m.Name)}, true
}
