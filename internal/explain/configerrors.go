package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
)

var configReasons = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
	"PreCreateHookError", "PreStartHookError"}

var (
	claimPattern   = regexp.MustCompile(`persistentvolumeclaim "([^"]+)" not found`)
	keyPattern     = regexp.MustCompile(`couldn't find key (\S+) in (ConfigMap|Secret) [^/\s]+/(\S+)`)
	objectPattern  = regexp.MustCompile(`(configmap|secret)s? "([^"]+)" not found`)
	userName       = regexp.MustCompile(`non-numeric user \(([^)]*)\)`)
	noSubPath      = regexp.MustCompile(`failed to prepare subPath for volumeMount "([^"]+)"`)
	programPattern = regexp.MustCompile(`exec: "([^"]+)"`)
)

func configFailed(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		w := c.waiting()
		if w == nil || !slices.Contains(configReasons, w.Reason) {
			continue
		}
		return configAnswer(in, c, w)
	}
	return nil
}

// configAnswer explains one container that cannot be made.
func configAnswer(in In, c container, w *corev1.ContainerStateWaiting) *Answer {
	a := &Answer{State: w.Reason, Cause: fmt.Sprintf("%s cannot be made: %s", c.title(), plainWords(w.Message)),
		Next: "it is tried again with growing pauses"}
	low := strings.ToLower(w.Message)
	_, refused := refusedStart(in, c, w.Message)
	switch {
	case keyPattern.MatchString(w.Message):
		m := keyPattern.FindStringSubmatch(w.Message)
		keyMissing(a, in, c, objectKey{kind: m[2], name: m[3], key: strings.TrimSuffix(m[1], ",")})
	case objectPattern.MatchString(w.Message):
		m := objectPattern.FindStringSubmatch(w.Message)
		objectMissing(a, in, objectKey{kind: kinds[m[1]], name: m[2]})
	case userName.MatchString(w.Message):
		namedUser(a, in, c, userName.FindStringSubmatch(w.Message)[1])
	case missingValue.MatchString(w.Message):
		variableMissing(a, in, c, missingValue.FindStringSubmatch(w.Message)[1])
	case strings.Contains(low, "runasnonroot"), strings.Contains(low, "non-root policy"):
		a.Cause = fmt.Sprintf("Container %s cannot be made: runAsNonRoot is set, and its user would be number 0: "+
			"%s", c.spec.Name, w.Message)
		a.Fixes = []Fix{
			asUser(in, c, 1000,
				"run it as another user, 1000 for instance (its files have to be readable for that one)"),
			editedContainer(in, c.spec.Name,
				"or let it run as user 0: then a process that breaks out is root on the node",
				func(x *corev1.Container) { no := false; security(x).RunAsNonRoot = &no })}
	case strings.Contains(low, oomAtStartWords):
		a.Cause = oomAtStart(in, c)
		a.Fixes = memoryFixes(in, c, memoryStateOf(in, c, &corev1.ContainerStateTerminated{}))
	case strings.Contains(low, "executable file not found"), strings.Contains(low, "no such file"),
		strings.Contains(low, "permission denied"), refused, workingDirOf(c, w.Message) != "":
		if profileMissing(a, in, c, w.Message) {
			break
		}
		a.Fixes = programFixes(in, c, w.Message)
		if text := startRefusedText(in, c, w.Message); text != "" {
			a.Cause = strings.TrimSuffix(a.Cause, ".") + "." + text
		}
	case noSubPath.MatchString(w.Message):
		subPathFailed(a, in, c, noSubPath.FindStringSubmatch(w.Message)[1])
	default:
		a.Fixes = otherConfigFixes(a, in, c, w.Message)
	}
	a.Facts = append(a.Facts, "the kubelet's words: "+w.Message)
	return a
}

// kubeletFix returns the remedy that the kubelet gave for a failure with this text; empty if it
// gave none.
func kubeletFix(in In, text string) string {
	w, _, _ := newest[journal.Waiting](in, func(w journal.Waiting) bool { return strings.Contains(w.For, text) })
	return w.Fix
}

// subPathFailed explains a subPath that cannot be mounted: it leads out of the volume, or through a
// file.
func subPathFailed(a *Answer, in In, c container, volume string) {
	var paths []string
	for _, m := range c.spec.VolumeMounts {
		if p := cmp.Or(m.SubPath, m.SubPathExpr); m.Name == volume && p != "" {
			paths = append(paths, fmt.Sprintf("%s (at %s)", p, m.MountPath))
		}
	}
	a.Cause = fmt.Sprintf("%s cannot be made: subPath %s of volume %s cannot be mounted", c.title(), joinList(paths),
		volume)
	why := strings.TrimPrefix(kubeletFix(in, fmt.Sprintf("failed to prepare subPath for volumeMount %q", volume)),
		"the subPath must stay inside the volume: ")
	switch {
	case strings.Contains(why, "cross-device link"), strings.Contains(why, "too many levels"):
		a.Cause += ": it is, or passes, a symbolic link that leads out of the volume, which the kubelet does not follow"
	case strings.Contains(why, "not a directory"):
		a.Cause += ": a part of it is a file and no directory"
	default:
		a.Cause += ": it must exist or be made inside the volume, and no symbolic link may lead out of it"
	}
	a.Cause += "."
	if why != "" {
		a.Facts = append(a.Facts, "the kernel's words: "+why)
	}
	a.Fixes = []Fix{editedContainer(in, c.spec.Name, "mount the whole volume there instead of the path in it",
		func(x *corev1.Container) {
			for i := range x.VolumeMounts {
				if x.VolumeMounts[i].Name == volume {
					x.VolumeMounts[i].SubPath, x.VolumeMounts[i].SubPathExpr = "", ""
				}
			}
		}), {Description: "or make the path a directory of the volume itself: what wrote the link there has to write " +
		"the files instead"}}
}

var kinds = map[string]string{"configmap": "ConfigMap", "secret": "Secret", "config": "ConfigMap"}

// objectKey is a key of a ConfigMap or Secret; an empty key means the whole object.
type objectKey struct{ kind, name, key string }

// keys returns the object's keys; known is false if the user may not read it.
func (r objectKey) keys(a *NamespaceContext) (keys []string, known bool) {
	if a == nil {
		return nil, false
	}
	if r.kind == "Secret" {
		keys, known = a.Secrets[r.name]
	} else {
		keys, known = a.ConfigMaps[r.name]
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return keys, known
}

// keyMissing explains a reference to a key that does not exist, and names a similar one.
func keyMissing(a *Answer, in In, c container, r objectKey) {
	who := "it refers"
	for _, e := range c.spec.Env {
		if k := keyOf(&e); k.name == r.name && k.key == r.key && k.kind == r.kind {
			who = "env " + e.Name + " refers"
		}
	}
	a.Cause = fmt.Sprintf("Container %s cannot be created: %s to key %s of %s %s", c.spec.Name, who, r.key, r.kind,
		r.name)
	keys, known := r.keys(in.NamespaceContext)
	switch {
	case !known:
		a.Cause += ", which has no such key."
	case len(keys) == 0:
		a.Cause += ", which has no keys at all."
	default:
		a.Cause += fmt.Sprintf(", which has only %s.", keyList(keys))
	}
	if near := nearestName(r.key, keys); near != "" {
		a.Fixes = append(a.Fixes, editedContainer(in, c.spec.Name, "refer to key "+near,
			func(x *corev1.Container) { redirectKey(x, r, near) }), r.copyKey(in, near))
	} else {
		a.Fixes = append(a.Fixes, Fix{Description: fmt.Sprintf("add key %s to %s %s", r.key, r.kind, r.name)})
	}
	a.Fixes = append(a.Fixes,
		editedContainer(in, c.spec.Name, "mark the reference optional: then the variable is not set",
			func(x *corev1.Container) { makeOptional(x, r) }))
}

func keyList(keys []string) string {
	if len(keys) == 1 {
		return "the key " + keys[0]
	}
	if len(keys) > 8 {
		return fmt.Sprintf("the keys %s and %d more", strings.Join(keys[:8], ", "), len(keys)-8)
	}
	return "the keys " + joinList(keys)
}

// keyOf returns the reference of an environment variable.
func keyOf(e *corev1.EnvVar) objectKey {
	switch {
	case e.ValueFrom == nil:
	case e.ValueFrom.ConfigMapKeyRef != nil:
		return objectKey{"ConfigMap", e.ValueFrom.ConfigMapKeyRef.Name, e.ValueFrom.ConfigMapKeyRef.Key}
	case e.ValueFrom.SecretKeyRef != nil:
		return objectKey{"Secret", e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key}
	}
	return objectKey{}
}

// redirectKey makes all references to r use another key.
func redirectKey(c *corev1.Container, r objectKey, key string) {
	for i := range c.Env {
		if keyOf(&c.Env[i]) != r {
			continue
		}
		if r.kind == "Secret" {
			c.Env[i].ValueFrom.SecretKeyRef.Key = key
		} else {
			c.Env[i].ValueFrom.ConfigMapKeyRef.Key = key
		}
	}
}

// makeOptional makes references to r optional; with an empty key all references to the object.
func makeOptional(c *corev1.Container, r objectKey) {
	yes := true
	for i := range c.Env {
		if k := keyOf(&c.Env[i]); k.kind != r.kind || k.name != r.name || r.key != "" && k.key != r.key {
			continue
		}
		if r.kind == "Secret" {
			c.Env[i].ValueFrom.SecretKeyRef.Optional = &yes
		} else {
			c.Env[i].ValueFrom.ConfigMapKeyRef.Optional = &yes
		}
	}
	for i := range c.EnvFrom {
		if s := c.EnvFrom[i].SecretRef; s != nil && r.kind == "Secret" && s.Name == r.name {
			s.Optional = &yes
		}
		if m := c.EnvFrom[i].ConfigMapRef; m != nil && r.kind == "ConfigMap" && m.Name == r.name {
			m.Optional = &yes
		}
	}
}

// copyKey returns the fix that adds the missing key with the value of a similar one.
func (r objectKey) copyKey(in In, near string) Fix {
	say, ns := fmt.Sprintf("or add key %s to %s %s with the value of %s", r.key, r.kind, r.name, near), in.Ref.Namespace
	if r.kind == "Secret" {
		return commandFix(say,
			fmt.Sprintf(
				`kubectl -n %[1]s patch secret %[2]s --type=merge -p "{\"data\":{\"%[3]s\":\"$(kubectl -n %[1]s get `+
					`secret %[2]s -o jsonpath='{.data.%[4]s}')\"}}"`, ns, r.name, r.key,
				strings.ReplaceAll(near, ".", `\.`)))
	}
	value, ok := in.NamespaceContext.Values[r.name+"/"+near]
	if !ok {
		return Fix{Description: say}
	}
	return commandFix(say, fmt.Sprintf("kubectl -n %s patch configmap %s --type=merge -p %s", ns, r.name,
		shellquote.Quoted(fmt.Sprintf(`{"data":{%s:%s}}`, shellquote.JSON(r.key), shellquote.JSON(value)))))
}

// objectMissing explains a reference to a ConfigMap or Secret that does not exist.
func objectMissing(a *Answer, in In, r objectKey) {
	var names []string
	if in.NamespaceContext != nil {
		have := in.NamespaceContext.ConfigMaps
		if r.kind == "Secret" {
			have = in.NamespaceContext.Secrets
		}
		for name := range have {
			names = append(names, name)
		}
	}
	a.Cause = strings.TrimSuffix(a.Cause, ".") + "."
	if near := nearestName(r.name, names); near != "" {
		a.Cause += fmt.Sprintf(" There is a %s %s: perhaps that was meant.", r.kind, near)
		a.Fixes = append(a.Fixes, editedPodFix(in, fmt.Sprintf("refer to %s %s", r.kind, near),
			func(s *corev1.PodSpec) { renameObject(s, r, near) }))
	}
	wanted := r.keysUsed(&in.Pod.Spec)
	kind := "configmap"
	if r.kind == "Secret" {
		kind = "secret generic"
	}
	cmd := fmt.Sprintf("kubectl -n %s create %s %s", in.Ref.Namespace, kind, r.name)
	for _, k := range wanted {
		cmd += fmt.Sprintf(" --from-literal=%s=", k)
	}
	say := fmt.Sprintf("create the %s %s", r.kind, r.name)
	if len(wanted) > 0 {
		say += "; the values of " + joinList(wanted) + " are yours to fill in"
	}
	a.Fixes = append(a.Fixes, commandFix(say, cmd))
}

// keysUsed returns the keys of the object that the Pod refers to.
func (r objectKey) keysUsed(s *corev1.PodSpec) []string {
	var out []string
	add := func(k string) {
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			for j := range list[i].Env {
				if k := keyOf(&list[i].Env[j]); k.kind == r.kind && k.name == r.name {
					add(k.key)
				}
			}
		}
	}
	for _, v := range s.Volumes {
		if v.ConfigMap != nil && r.kind == "ConfigMap" && v.ConfigMap.Name == r.name {
			for _, i := range v.ConfigMap.Items {
				add(i.Key)
			}
		}
		if v.Secret != nil && r.kind == "Secret" && v.Secret.SecretName == r.name {
			for _, i := range v.Secret.Items {
				add(i.Key)
			}
		}
	}
	return out
}

// renameObject makes all references to the object refer to another one.
func renameObject(s *corev1.PodSpec, r objectKey, to string) {
	secret := r.kind == "Secret"
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			for j := range list[i].Env {
				if k := keyOf(&list[i].Env[j]); k.kind != r.kind || k.name != r.name {
					continue
				}
				if secret {
					list[i].Env[j].ValueFrom.SecretKeyRef.Name = to
				} else {
					list[i].Env[j].ValueFrom.ConfigMapKeyRef.Name = to
				}
			}
			for j := range list[i].EnvFrom {
				if f := list[i].EnvFrom[j].SecretRef; f != nil && secret && f.Name == r.name {
					f.Name = to
				}
				if f := list[i].EnvFrom[j].ConfigMapRef; f != nil && !secret && f.Name == r.name {
					f.Name = to
				}
			}
		}
	}
	for i := range s.Volumes {
		if v := s.Volumes[i].ConfigMap; v != nil && !secret && v.Name == r.name {
			v.Name = to
		}
		if v := s.Volumes[i].Secret; v != nil && secret && v.SecretName == r.name {
			v.SecretName = to
		}
	}
}

// namedUser explains runAsNonRoot with an image whose user is a name.
func namedUser(a *Answer, in In, c container, name string) {
	a.Cause = fmt.Sprintf("Container %s cannot be made: runAsNonRoot is set, and the image %s names its user %q "+
		"(non-numeric) instead of giving a number, so the kubelet cannot verify that it is another than 0.",
		c.spec.Name, c.spec.Image, name)
	ns, id := in.Ref.Namespace, "user-of-"+in.Ref.Name
	now := in.Pod.DeepCopy()
	const mark = 424242424242
	setUser(&now.Spec, c.spec.Name, mark)
	run := whatif.Commands(in.Pod, now)
	if len(run) > 0 {
		ask := fmt.Sprintf("kubectl -n %[1]s run %[2]s --image=%[3]s --restart=Never --command -- id -u %[4]s && "+
			"kubectl -n %[1]s wait pod/%[2]s --for=jsonpath='{.status.phase}'=Succeeded --timeout=60s && "+
			"uid=$(kubectl -n %[1]s logs %[2]s) && kubectl -n %[1]s delete pod %[2]s",
			ns, id, shellquote.Word(c.spec.Image), shellquote.Word(name))
		set := strings.Replace(run[0], fmt.Sprint(int64(mark)), `'"$uid"'`, 1)
		a.Fixes = append(a.Fixes,
			commandFix(fmt.Sprintf("say which user by number: ask the image which number %s has, and set runAsUser "+
				"to it", name), append([]string{ask + " && " + set}, run[1:]...)...))
	}
	a.Fixes = append(a.Fixes,
		asUser(in, c, 1000,
			"or set runAsUser to a number of your own, if the program does not need the user of the image"),
		Fix{Description: "or build the image with a numeric USER"})
}

func asUser(in In, c container, uid int64, say string) Fix {
	return editedPodFix(in, say, func(s *corev1.PodSpec) { setUser(s, c.spec.Name, uid) })
}

func setUser(s *corev1.PodSpec, name string, uid int64) {
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			if list[i].Name == name {
				security(&list[i]).RunAsUser = &uid
			}
		}
	}
}
