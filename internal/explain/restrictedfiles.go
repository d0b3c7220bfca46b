package explain

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// nearFile is a file of a volume from the API that has nearly the name of one that is not there.
func nearFile(in In, m corev1.VolumeMount, file string) (restriction, bool) {
	i := slices.IndexFunc(in.Pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	if in.Objects == nil || i < 0 {
		return restriction{}, false
	}
	have, known := in.Objects.FilesOf(&in.Pod.Spec.Volumes[i], in.Ref.Namespace)
	rest := path.Join(m.SubPath, strings.TrimPrefix(strings.TrimPrefix(file, m.MountPath), "/"))
	near, how := finding.Near(rest, have)
	if !known || near == "" || slices.Contains(have, rest) {
		return restriction{}, false
	}
	v := in.Pod.Spec.Volumes[i]
	r := restriction{field: fmt.Sprintf("spec.volumes[%d]", i), value: v.Name, want: near, text: fmt.Sprintf(
		"It wants %s, and volume %s at %s has %s, no %s; %s.", file, m.Name, m.MountPath, near, rest, how)}
	if len(have) > 0 && m.SubPath == "" {
		r.fixes = []Fix{editedPodFix(in, fmt.Sprintf("show %s as %s", near, rest), func(s *corev1.PodSpec) {
			showAs(&s.Volumes[i], have, near, rest)
		})}
	}
	return r, true
}

// showAs lets a volume of one ConfigMap or Secret show all its files, one of them by another path.
func showAs(v *corev1.Volume, have []string, name, as string) {
	var items []corev1.KeyToPath
	for _, k := range have {
		item := corev1.KeyToPath{Key: k, Path: k}
		if k == name {
			item.Path = as
		}
		items = append(items, item)
	}
	change := func(list []corev1.KeyToPath) []corev1.KeyToPath {
		if len(list) == 0 {
			return items
		}
		list = slices.Clone(list)
		for i := range list {
			if list[i].Path == name {
				list[i].Path = as
			}
		}
		return list
	}
	switch {
	case v.ConfigMap != nil:
		v.ConfigMap.Items = change(v.ConfigMap.Items)
	case v.Secret != nil:
		v.Secret.Items = change(v.Secret.Items)
	}
}

// itemMode is the mode of its own that one file of a volume has, where it keeps others than root
// from reading.
func itemMode(in In, m corev1.VolumeMount, at int, file string) (restriction, bool) {
	kind := "configMap"
	itemsOf := func(v *corev1.Volume) []corev1.KeyToPath {
		switch {
		case v.Secret != nil:
			kind = "secret"
			return v.Secret.Items
		case v.ConfigMap != nil:
			return v.ConfigMap.Items
		}
		return nil
	}
	rest := path.Join(m.SubPath, strings.TrimPrefix(strings.TrimPrefix(file, m.MountPath), "/"))
	for j, item := range itemsOf(&in.Pod.Spec.Volumes[at]) {
		if item.Path != rest || item.Mode == nil || *item.Mode&0o004 != 0 {
			continue
		}
		return restriction{field: fmt.Sprintf("spec.volumes[%d].%s.items[%d].mode", at, kind, j),
			value: fmt.Sprint(*item.Mode), want: "420", text: fmt.Sprintf("%s of volume %s has mode %04o, which keeps "+
				"its user from it.", file, m.Name, *item.Mode), fixes: []Fix{editedPodFix(in,
				"open the file to others: mode 0644", func(s *corev1.PodSpec) {
					n := int32(0o644)
					itemsOf(&s.Volumes[at])[j].Mode = &n
				})}}, true
	}
	return restriction{}, false
}

// imageUserDenied is the user that an image names, of a container whose spec names none, whom the
// image's own files keep out.
func imageUserDenied(in In, c container, at, file string) (restriction, bool) {
	uid := imageUser(c)
	if file == "" || uid == 0 {
		return restriction{}, false
	}
	return restriction{field: at + ".image", value: c.spec.Image, text: fmt.Sprintf("It runs as user %d, whom its "+
		"image names (runAsUser is not set), and the image's file %s is not open to that one.", uid, file),
		fixes: append(scratchFix(in, c, path.Dir(file)), asUser(in, c, 0, "or run it as root: what breaks out is "+
			"root on the node"))}, true
}

// imageUser is the user that a container runs as by its status; 0 where that does not say.
func imageUser(c container) int64 {
	if c.status == nil || c.status.User == nil || c.status.User.Linux == nil {
		return 0
	}
	return c.status.User.Linux.UID
}

// notExecutable is the mode of a volume's files, which all may read: what is denied is to run them.
func notExecutable(in In, volume int, file string, mode int32) restriction {
	v := in.Pod.Spec.Volumes[volume]
	kind, name := "projected", v.Name
	switch {
	case v.Secret != nil:
		kind = "secret"
	case v.ConfigMap != nil:
		kind = "configMap"
	}
	return restriction{field: fmt.Sprintf("spec.volumes[%d].%s.defaultMode", volume, kind), value: fmt.Sprint(mode),
		want: "493", text: fmt.Sprintf("%s of volume %s has mode %04o, which lets nobody run it: it needs 0755.",
			file, name, mode),
		fixes: []Fix{editedPodFix(in, "let the files be run: defaultMode 0755",
			func(s *corev1.PodSpec) { setMode(&s.Volumes[volume], 0o755) })}}
}
