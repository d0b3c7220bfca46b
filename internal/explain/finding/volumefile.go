package finding

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// VolumeFile is one file that a volume shows of a ConfigMap or Secret.
type VolumeFile struct {
	Of   Object
	Key  string
	Mode int32
	Text string // what is in it; empty of a Secret's, and of binary data
}

// FileAt is the file that a volume of ConfigMaps and Secrets shows at a path below it. known is
// false for other volumes, and where an object that it shows was not read: then nothing is said.
func (c *Cluster) FileAt(v *corev1.Volume, namespace, at string) (f VolumeFile, there, known bool) {
	at = path.Clean(at)
	parts, mode, known := partsOf(v, namespace)
	for _, p := range parts {
		o := c.Get(p.of)
		if o == nil {
			if !c.Read(p.of.Kind) {
				known = false
			}
			continue
		}
		keys, read := keysOf(o)
		known = known && read
		for _, k := range keys {
			x := VolumeFile{Of: p.of, Key: k, Mode: mode}
			if len(p.items) > 0 {
				i := slices.IndexFunc(p.items, func(i corev1.KeyToPath) bool {
					return i.Key == k && path.Clean(i.Path) == at
				})
				if i < 0 {
					continue
				}
				if p.items[i].Mode != nil {
					x.Mode = *p.items[i].Mode
				}
			} else if k != at {
				continue
			}
			if m, ok := o.(*corev1.ConfigMap); ok {
				x.Text = m.Data[k]
			}
			f, there = x, true
		}
	}
	return f, there, known
}

// volumePart is an object that a volume shows, with the keys that it shows of it; none: all.
type volumePart struct {
	of    Object
	items []corev1.KeyToPath
}

// partsOf are the objects that a volume shows, later ones over earlier ones, and the mode of files
// that have none of their own; ok is false for volumes that show something else too.
func partsOf(v *corev1.Volume, namespace string) (out []volumePart, mode int32, ok bool) {
	mode = 0o644
	own := func(m *int32) {
		if m != nil {
			mode = *m
		}
	}
	switch {
	case v.ConfigMap != nil:
		own(v.ConfigMap.DefaultMode)
		out = append(out, volumePart{Object{"ConfigMap", namespace, v.ConfigMap.Name}, v.ConfigMap.Items})
	case v.Secret != nil:
		own(v.Secret.DefaultMode)
		out = append(out, volumePart{Object{"Secret", namespace, v.Secret.SecretName}, v.Secret.Items})
	case v.Projected != nil:
		own(v.Projected.DefaultMode)
		for _, s := range v.Projected.Sources {
			switch {
			case s.ConfigMap != nil:
				out = append(out, volumePart{Object{"ConfigMap", namespace, s.ConfigMap.Name}, s.ConfigMap.Items})
			case s.Secret != nil:
				out = append(out, volumePart{Object{"Secret", namespace, s.Secret.Name}, s.Secret.Items})
			default:
				return nil, mode, false
			}
		}
	default:
		return nil, mode, false
	}
	return out, mode, true
}
