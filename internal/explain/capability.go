package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// capabilityWords are lines, in lower case, of programs that were not permitted something, and the
// capability which that needs (capabilities(7)).
var capabilityWords = []struct {
	line       *regexp.Regexp
	capability corev1.Capability
}{
	{regexp.MustCompile(`\b(chown|lchown|fchownat|chgrp)\b|changing (owner|group)|change owner`), "CHOWN"},
	{regexp.MustCompile(`\bchmod\b|changing permissions|\butime`), "FOWNER"},
	{regexp.MustCompile(`\bsetgroups\b|\bsetgid\b|\bsetresgid\b|\binitgroups\b`), "SETGID"},
	{regexp.MustCompile(`\bsetuid\b|\bsetresuid\b|\bsu(do|-exec)?:|\bgosu\b`), "SETUID"},
	{regexp.MustCompile(`\bping\b|raw socket|\bsock_raw\b`), "NET_RAW"},
	{regexp.MustCompile(`\biptables\b|rtnetlink|\bnft\b|\btun(tap)?\b`), "NET_ADMIN"},
	{regexp.MustCompile(`\bu?mount\b|\bpivot_root\b|\bunshare\b|\bsethostname\b|\bhostname:`), "SYS_ADMIN"},
	{regexp.MustCompile(`\bsettimeofday\b|can't set date|cannot set date`), "SYS_TIME"},
	{regexp.MustCompile(`\bmknod\b`), "MKNOD"},
	{regexp.MustCompile(`\bchroot\b`), "SYS_CHROOT"},
	{regexp.MustCompile(`\bkill\b`), "KILL"},
	{regexp.MustCompile(`\bptrace\b|\bstrace\b`), "SYS_PTRACE"},
	{regexp.MustCompile(`\bmlock(all)?\b`), "IPC_LOCK"},
	{regexp.MustCompile(`\bnice\b|\bsetpriority\b|\bsched_setscheduler\b`), "SYS_NICE"},
}

// oneCapability is the capability that a container was not given and that its line, in lower case,
// tells of.
func oneCapability(in In, c container, at, line string) (restriction, bool) {
	for _, x := range capabilityWords {
		if !x.line.MatchString(line) {
			continue
		}
		all := c.spec.SecurityContext.Capabilities
		if slices.Contains(all.Add, x.capability) {
			return restriction{}, false
		}
		return restriction{field: at + ".securityContext.capabilities.drop", value: joined(all.Drop),
			text: fmt.Sprintf("What it tried needs the capability %s, and its capabilities %s are taken away "+
				"(securityContext.capabilities.drop).", x.capability, joined(all.Drop)),
			fixes: []Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("give %s back alone: what breaks in has it too",
				x.capability), func(y *corev1.Container) {
				drop := slices.DeleteFunc(slices.Clone(all.Drop), func(k corev1.Capability) bool {
					return strings.EqualFold(strings.TrimPrefix(string(k), "CAP_"), string(x.capability))
				})
				y.SecurityContext.Capabilities = &corev1.Capabilities{Drop: drop,
					Add: append(slices.Clone(all.Add), x.capability)}
			})}}, true
	}
	return restriction{}, false
}

// ownerWords are lines, in lower case, of programs that change owners or modes.
var ownerWords = regexp.MustCompile(`\b(l?chown|fchownat|chgrp|chmod)\b|changing (owner|group|permissions)`)

// ownerChangeRefused is a program that may not change whose a file is, or its mode, wherever the
// file lies: its capability was taken away, or its user is not root.
func ownerChangeRefused(in In, c container, at, line string) (restriction, bool) {
	if !ownerWords.MatchString(line) || !strings.Contains(line, "not permitted") {
		return restriction{}, false
	}
	if s := c.spec.SecurityContext; s != nil && s.Capabilities != nil && len(s.Capabilities.Drop) > 0 {
		if r, ok := oneCapability(in, c, at, line); ok {
			return r, true
		}
	}
	uid, field, known := userOf(in.Pod, c, at)
	if !known || uid == 0 {
		return restriction{}, false
	}
	group := int64(1000)
	return restriction{field: field, value: fmt.Sprint(uid), want: "0", text: fmt.Sprintf("It runs as user %d "+
		"(%s), and only root, or who has the capability CHOWN, may change whose a file "+
		"is.", uid, field), fixes: []Fix{
		editedContainer(in, c.spec.Name, "run this container as root, with no more than the capability CHOWN",
			func(x *corev1.Container) {
				s := security(x)
				root, no := int64(0), false
				s.RunAsUser, s.RunAsNonRoot = &root, &no
			}), editedPodFix(in, fmt.Sprintf("or let the kubelet give its volumes to a group: fsGroup %d, and do "+
			"without the change", group), func(s *corev1.PodSpec) {
			if s.SecurityContext == nil {
				s.SecurityContext = &corev1.PodSecurityContext{}
			}
			s.SecurityContext.FSGroup = &group
		})}}, true
}
