package explain

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// saidRow holds words of a program's last line against a field of its Pod's spec. find returns
// false where the field does not say so.
type saidRow struct {
	words *regexp.Regexp
	find  func(In, container, string) (restriction, bool)
}

// saidRows are asked in order.
var saidRows = []saidRow{
	{regexp.MustCompile(`(?i)no[ _]new[ _]priv|must be (?:suid|setuid)|effective uid is not 0|must be owned by uid 0 ` +
		`and have the setuid bit`), noNewPrivileges},
	{regexp.MustCompile(`(?i)(?:only|must|has to|needs to|should) (?:be )?(?:run(?:ning)? )?(?:as )?pid 1\b|not ` +
		`(?:running )?as pid 1\b`), firstProcess},
	{regexp.MustCompile(`(?i)\bavc: |selinux`), seLinuxDenied},
	{regexp.MustCompile(`(?i)invalid (?:header|character|byte|control)|header (?:field )?value|new-?line|line ?feed|` +
		`\\n|(?:illegal|control) character|white-?space|trailing|malformed|authenti|password|unauthori[sz]ed|\b401\b`),
		lineEndIn},
	{regexp.MustCompile(`(?i)\baudience`), tokenAudience},
	{regexp.MustCompile(`(?i)(?:token|jwt)[^.]* (?:is |has )?expired|expired (?:token|jwt)|exp(?:iry)? claim`),
		tokenExpired},
	{regexp.MustCompile(`(?i)transport endpoint is not connected|not a mount ?point|is not mounted`), mountUnseen},
}

// saidBySpec is the field of a Pod's spec that a line of its program is about, by saidRows.
func saidBySpec(in In, c container, at, line string) (restriction, bool) {
	for _, row := range saidRows {
		if !row.words.MatchString(line) {
			continue
		}
		if r, ok := row.find(in, c, at); ok {
			return r, true
		}
	}
	return restriction{}, false
}

// noNewPrivileges is a container whose programs gain no rights by their setuid bit or capabilities.
func noNewPrivileges(in In, c container, at string) (restriction, bool) {
	s := c.spec.SecurityContext
	if s == nil || ptr.Deref(s.AllowPrivilegeEscalation, true) {
		return restriction{}, false
	}
	return restriction{field: at + ".securityContext.allowPrivilegeEscalation", value: "false", want: "true",
		text: "Its program gains rights by a setuid bit (as sudo and su do), and allowPrivilegeEscalation is " +
			"false: the kernel gives it " +
			"none.", fixes: []Fix{{Description: "run what it needs as the container's own user, " +
			"without sudo or su"}, editedContainer(in, c.spec.Name, "or let its programs gain rights: what breaks in "+
			"may gain them too", func(x *corev1.Container) { x.SecurityContext.AllowPrivilegeEscalation = nil })}}, true
}

// firstProcess is a container that is not process 1 because it shares its process namespace.
func firstProcess(in In, _ container, _ string) (restriction, bool) {
	switch s := &in.Pod.Spec; {
	case ptr.Deref(s.ShareProcessNamespace, false):
		return restriction{field: "spec.shareProcessNamespace", value: "true", want: "false", text: "It wants to be " +
			"process 1, and shareProcessNamespace is true: process 1 is the sandbox's, for all containers of the Pod.",
			fixes: []Fix{editedPodFix(in, "give each container processes of its own",
				func(s *corev1.PodSpec) { s.ShareProcessNamespace = nil })}}, true
	case s.HostPID:
		return restriction{field: "spec.hostPID", value: "true", want: "false", text: "It wants to be process 1, and " +
			"hostPID is true: process 1 is the node's own.", fixes: []Fix{editedPodFix(in, "give the Pod processes of "+
			"its own", func(s *corev1.PodSpec) { s.HostPID = false })}}, true
	}
	return restriction{}, false
}

// tokenOf is a projected token that a container mounts: its field, its path in the container, and
// itself.
func tokenOf(in In, c container, is func(*corev1.ServiceAccountTokenProjection) bool) (at, file string,
	t *corev1.ServiceAccountTokenProjection) {
	for i, v := range in.Pod.Spec.Volumes {
		k := slices.IndexFunc(c.spec.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
		if v.Projected == nil || k < 0 {
			continue
		}
		for j, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil && is(s.ServiceAccountToken) {
				return fmt.Sprintf("spec.volumes[%d].projected.sources[%d].serviceAccountToken", i, j),
					path.Join(c.spec.VolumeMounts[k].MountPath, s.ServiceAccountToken.Path), s.ServiceAccountToken
			}
		}
	}
	return "", "", nil
}

// tokenAudience is a token that is for one audience only.
func tokenAudience(in In, c container, _ string) (restriction, bool) {
	at, file, t := tokenOf(in, c, func(t *corev1.ServiceAccountTokenProjection) bool { return t.Audience != "" })
	if t == nil {
		return restriction{}, false
	}
	return restriction{field: at + ".audience", value: t.Audience, text: fmt.Sprintf("Its token %s is for the "+
		"audience %s only (%s.audience): whoever does not call himself so refuses it.", file, t.Audience, at),
		fixes: []Fix{{Description: "let audience be the name that the program's server checks; without audience the " +
			"token is for the API server"}}}, true
}

// tokenExpired is a token that the kubelet renews in its file, and that a program read once.
func tokenExpired(in In, c container, _ string) (restriction, bool) {
	at, file, t := tokenOf(in, c, func(*corev1.ServiceAccountTokenProjection) bool { return true })
	if t == nil {
		return restriction{}, false
	}
	seconds := ptr.Deref(t.ExpirationSeconds, 3600)
	return restriction{field: at + ".expirationSeconds", value: fmt.Sprint(seconds),
		text: fmt.Sprintf("Its token %s is good for %d s (%s.expirationSeconds). The kubelet renews the file in time: "+
			"a program that read it once goes on with the old token.", file, seconds, at),
		fixes: []Fix{{Description: fmt.Sprintf("let the program read %s anew before each use, or when it is refused",
			file)}}}, true
}

// mountUnseen is a volume into which another container of the Pod mounts something, and whose mount
// here does not propagate that.
func mountUnseen(in In, c container, at string) (restriction, bool) {
	for i, m := range c.spec.VolumeMounts {
		if p := m.MountPropagation; p != nil && *p != corev1.MountPropagationNone {
			continue
		}
		for _, o := range containers(in.Pod) {
			if o.spec.Name == c.spec.Name || !slices.ContainsFunc(o.spec.VolumeMounts, func(x corev1.VolumeMount) bool {
				return x.Name == m.Name && ptr.Deref(x.MountPropagation, "") == corev1.MountPropagationBidirectional
			}) {
				continue
			}
			to := corev1.MountPropagationHostToContainer
			return restriction{field: fmt.Sprintf("%s.volumeMounts[%d].mountPropagation", at, i), value: "None",
				want: string(to), text: fmt.Sprintf("Container %s mounts into volume %s (mountPropagation "+
					"Bidirectional), and %s of this container does not propagate it: it sees the directory as "+
					"it was.", o.spec.Name,
					m.Name, m.MountPath), fixes: []Fix{editedContainer(in, c.spec.Name, "let mounts be seen here: "+
					"mountPropagation HostToContainer", func(x *corev1.Container) {
					x.VolumeMounts[i].MountPropagation = &to
				})}}, true
		}
	}
	return restriction{}, false
}

// filteredCalls are system calls, and programs of their names, that the default seccomp profile of
// runtimes refuses whatever the capabilities are.
var filteredCalls = regexp.MustCompile(`\b(unshare|keyctl|add_key|request_key|io_uring(?:_setup)?|perf_event_open|` +
	`userfaultfd|kexec_load|bpf)\b`)

// filteredCall is a system call that a container's seccomp profile refuses.
func filteredCall(in In, c container, at, line string) (restriction, bool) {
	m := filteredCalls.FindString(strings.ToLower(line))
	if m == "" {
		return restriction{}, false
	}
	at += ".securityContext.seccompProfile"
	var p *corev1.SeccompProfile
	if s := c.spec.SecurityContext; s != nil {
		p = s.SeccompProfile
	}
	if s := in.Pod.Spec.SecurityContext; p == nil && s != nil {
		p, at = s.SeccompProfile, "spec.securityContext.seccompProfile"
	}
	if p == nil || p.Type == corev1.SeccompProfileTypeUnconfined {
		return restriction{}, false
	}
	value := string(p.Type)
	if p.LocalhostProfile != nil {
		value += " " + *p.LocalhostProfile
	}
	return restriction{field: at + ".type", value: value, text: fmt.Sprintf("The system call %s is refused, and its "+
		"seccomp profile is %s (%s): the default profiles of runtimes do not allow that call.", m, value, at+".type"),
		fixes: []Fix{{Description: fmt.Sprintf("do without %s, or give the Pod a profile of type Localhost that "+
			"allows it",
			m)}}}, true
}

// groupForbids is a file that its mode opens to its group, which the container's user is not in.
func groupForbids(in In, c container, at string, mode int32) string {
	if mode&0o040 == 0 {
		return ""
	}
	group, field := int64(0), ""
	if s := in.Pod.Spec.SecurityContext; s != nil && s.RunAsGroup != nil {
		group, field = *s.RunAsGroup, "spec.securityContext.runAsGroup"
	}
	if s := c.spec.SecurityContext; s != nil && s.RunAsGroup != nil {
		group, field = *s.RunAsGroup, at+".securityContext.runAsGroup"
	}
	if field == "" || group == 0 {
		return ""
	}
	return fmt.Sprintf(" The mode opens it to the file's group, which without fsGroup is 0, and the container runs "+
		"with group %d (%s).", group, field)
}
