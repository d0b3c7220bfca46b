package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/images"
)

var imageReasons = []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
	"ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"}

// imagePull is a container whose image cannot be pulled.
type imagePull struct {
	input     In
	container container
	text      string // the runtime's last message
	secrets   []journal.PullSecret
	host      string // host of the registry
	repo      string
	tag       string
}

func imagePullFailed(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		w := c.waiting()
		if w == nil || !slices.Contains(imageReasons, w.Reason) {
			continue
		}
		if i := imageVolume(in.Pod, c, w.Message); i >= 0 {
			return volumeImageAnswer(in, c, w, i)
		}
		return imageAnswer(in, c, w)
	}
	return nil
}

// imageAnswer explains one container that waits for its image.
func imageAnswer(in In, c container, w *corev1.ContainerStateWaiting) *Answer {
	p := imagePull{input: in, container: c, text: w.Message}
	if named, err := reference.ParseNormalizedNamed(c.spec.Image); err == nil {
		p.host, p.repo = reference.Domain(named), reference.Path(named)
		if t, ok := reference.TagNameOnly(named).(reference.Tagged); ok {
			p.tag = t.Tag()
		}
	}
	a := &Answer{State: w.Reason, shared: "image " + c.spec.Image}
	failed := func(f journal.PullFailed) bool { return f.Image == c.spec.Image && f.Reason != "ImagePullBackOff" }
	if f, at, ok := newest[journal.PullFailed](in, failed); ok {
		p.text, p.secrets = f.Message, f.Secrets
		a.Facts = append(a.Facts, fmt.Sprintf("last try %s ago", ago(in.Now.Sub(at))))
	}
	if f, _, ok := newest[journal.PullFailed](in,
		func(f journal.PullFailed) bool { return f.Image == c.spec.Image && !f.RetryAt.IsZero() }); ok &&
		f.RetryAt.After(in.Now) {
		a.Next = "next try in " + ago(f.RetryAt.Sub(in.Now))
	}
	p.classify(a, w.Reason)
	p.reportPresence(a)
	a.Facts = append(a.Facts, "the runtime's words: "+p.text)
	return a
}

// classify finds the cause from the registry's answer.
func (p imagePull) classify(a *Answer, reason string) {
	low, of := strings.ToLower(p.text), fmt.Sprintf("The image %s of container %s cannot be had: ",
		p.container.spec.Image, p.container.spec.Name)
	has := func(phrases ...string) bool {
		return slices.ContainsFunc(phrases, func(w string) bool { return strings.Contains(low, w) })
	}
	switch {
	case reason == "ErrImageNeverPull":
		a.Cause = of + "it is not on the node, and imagePullPolicy Never forbids to pull it (ErrImageNeverPull)."
		a.Fixes = []Fix{editedContainer(p.input, p.container.spec.Name, "let the kubelet pull it",
			func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullIfNotPresent }),
			{Description: "or import the image on the node"}}
	case reason == "InvalidImageName":
		a.Cause = of + "that is not an image's name: " + p.text
		a.Fixes = p.validNameFixes()
	case p.refused():
		p.unauthorized(a, of)
	case has("no match for platform"):
		a.Cause = of + "there is none for this node's processor (no match for platform)."
		a.Fixes = textFixes("build the image for the node's architecture, or place the Pod on a node of the image's " +
			"(nodeSelector kubernetes.io/arch)")
	case has("not found", "manifest unknown", "name unknown"):
		p.notFound(a, reason)
	case has("connection refused", "no such host", "timeout", "unreachable", "no route", "server misbehaving"):
		a.Cause = of + fmt.Sprintf("the registry %s does not answer: %s", p.host, innermostError(p.text))
		a.Fixes = textFixes("start the registry or mend the way to it; the pull is tried again by itself")
		a.shared = "registry " + p.host
	case has("http response to https", "does not look like a tls handshake"):
		a.Cause = of + fmt.Sprintf("the registry %s speaks plain HTTP, and the node's runtime asks it by HTTPS: %s",
			p.host,
			innermostError(p.text))
		a.shared = "trust in registry " + p.host
		a.Fixes = textFixes(fmt.Sprintf("let the runtime ask it by HTTP: server = \"http://%s\" in containerd's "+
			"certs.d/%s/hosts.toml on the node, or, better, let the registry serve HTTPS", p.host, p.host))
	case has("certificate", "x509", "tls"):
		a.Cause = of + fmt.Sprintf("the connection to the registry %s cannot be trusted: %s", p.host,
			innermostError(p.text))
		a.shared = "trust in registry " + p.host
		a.Fixes = textFixes("give the node the registry's authority, or say in containerd's certs.d/" + p.host +
			"/hosts.toml how it is reached")
	default:
		a.Cause = of + p.text
		a.Fixes = textFixes("read the registry's message above")
	}
}

// innermostError returns the innermost of nested error messages.
func innermostError(text string) string {
	parts := strings.Split(text, ": ")
	return strings.Join(parts[max(0, len(parts)-2):], ": ")
}

// schemeOfURL is how a URL begins: an image's name has none.
var schemeOfURL = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// validName is the image's name that was probably meant by one that is none, and what to do to have
// it: without a URL's scheme, in lower case, without what is left open at its end. Empty where that
// gives no name either.
func validName(image string) (name, how string) {
	for _, try := range []struct {
		how  string
		edit func(string) string
	}{
		{"write the name without " + schemeOfURL.FindString(image), func(s string) string {
			return schemeOfURL.ReplaceAllString(s, "")
		}},
		{"write the name in lower case", strings.ToLower},
		{"write the name without what is open at its end", func(s string) string {
			return strings.TrimRight(s,
				":/@ ")
		}},
	} {
		was := image
		if image = try.edit(image); image == was {
			continue
		}
		if how == "" {
			how = try.how
		} else {
			how = "correct the name"
		}
		if _, err := reference.ParseNormalizedNamed(image); err == nil {
			return image, how
		}
	}
	return "", ""
}

// validNameFixes returns a fix with the name that was probably meant.
func (p imagePull) validNameFixes() []Fix {
	name, how := validName(p.container.spec.Image)
	if name == "" {
		return textFixes("correct the image's name: lower case, host/path:tag")
	}
	return []Fix{p.setImageFix(how, name)}
}

// setImageFix returns the fix that sets the container's image.
func (p imagePull) setImageFix(say, ref string) Fix {
	return commandFix(say, fmt.Sprintf("kubectl -n %s set image %s %s=%s", p.input.Pod.Namespace,
		commandTarget(p.input.Pod), p.container.spec.Name, ref))
}

// notFound explains a tag or repository that does not exist.
func (p imagePull) notFound(a *Answer, reason string) {
	short := strings.TrimPrefix(p.repo, "library/")
	state := ""
	if reason == "ImagePullBackOff" {
		state = "; the pull is in back-off (ImagePullBackOff)"
	}
	tags, _, reported := newest[journal.ImageTags](p.input,
		func(f journal.ImageTags) bool { return f.Image == p.container.spec.Image })
	if !reported || p.tag == "" {
		a.Cause = fmt.Sprintf("The image %s of container %s does not exist (not found): the registry %s answers and "+
			"does not have it%s.", p.container.spec.Image, p.container.spec.Name, p.host, state)
		a.Fixes = textFixes("correct the image's name or tag, or push it: the registry answers, but has no " +
			p.container.spec.Image)
		return
	}
	near := closestTags(p.tag, tags.Tags)
	list := slices.Clone(near[:min(len(near), 5)])
	slices.Sort(list)
	if len(near) > 5 {
		list = append(list, fmt.Sprintf("%d more", len(near)-5))
	}
	a.Cause = fmt.Sprintf("The image %s of container %s does not exist (not found): the registry %s answers, but has "+
		"no tag %s of %s; tags there are %s%s.", p.container.spec.Image, p.container.spec.Name, p.host, p.tag, short,
		joinList(list), state)
	for _, t := range near[:min(2, len(near))] {
		a.Fixes = append(a.Fixes, p.setImageFix("use the tag "+t+", which is there",
			strings.TrimSuffix(p.container.spec.Image, ":"+p.tag)+":"+t))
	}
	a.Fixes = append(a.Fixes, Fix{Description: "or push the tag " + p.tag + "; the next try finds it"})
}

// unauthorized explains a registry that requires credentials.
func (p imagePull) unauthorized(a *Answer, of string) {
	ns := p.input.Ref.Namespace
	var fit, other []string
	for _, s := range p.secrets {
		switch {
		case s.Error != "":
			a.Cause = of + fmt.Sprintf("the registry %s wants credentials (401), and the pull secret %s cannot be "+
				"used: %s.", p.host, s.Name, strings.TrimSuffix(s.Error, "."))
			a.Fixes = p.otherSecret(s.Name)
			return
		case slices.ContainsFunc(s.Hosts,
			func(h string) bool { ok, err := images.Matches(h, p.container.spec.Image); return err == nil && ok }):
			fit = append(fit, s.Name)
		default:
			other = append(other, fmt.Sprintf("%s is there and well formed, but holds credentials for %s only", s.Name,
				joinList(s.Hosts)))
			for _, h := range s.Hosts {
				a.Fixes = append(a.Fixes, p.copyHostFix(s.Name, h))
			}
		}
	}
	made := "pull-" + strings.NewReplacer(":", "-", ".", "-").Replace(p.host)
	create := editedPodFix(p.input, "make a pull secret for "+p.host+" (put in user and password) and name it in "+
		"imagePullSecrets", func(s *corev1.PodSpec) {
		s.ImagePullSecrets = append(slices.Clone(s.ImagePullSecrets), corev1.LocalObjectReference{Name: made})
	})
	create.Run = append([]string{fmt.Sprintf("kubectl -n %s create secret docker-registry %s --docker-server=%s "+
		"--docker-username=USER --docker-password=PASSWORD", ns, made, p.host)}, create.Run...)
	switch {
	case len(fit) > 0:
		a.Cause = of + fmt.Sprintf("the registry %s does not accept the credentials of pull secret %s (401 or 403).",
			p.host, joinList(fit))
		a.Fixes = append(
			[]Fix{{Description: "correct user and password in " + joinList(fit) +
				", or give that user the right to pull " + p.repo}}, a.Fixes...)
	case len(other) > 0:
		a.Cause = of + fmt.Sprintf("the registry %s refuses an anonymous pull (401 Unauthorized): the pull secret "+
			"%s, so none was sent.", p.host, joinList(other))
		a.Fixes = append(a.Fixes, create)
	case len(p.secrets) == 0 && len(p.input.Pod.Spec.ImagePullSecrets) > 0:
		a.Cause = of + fmt.Sprintf("the registry %s refuses the pull (401 or 403): whether pull secret %s was sent, "+
			"and what it holds, is not known here.", p.host, p.input.Pod.Spec.ImagePullSecrets[0].Name)
		a.Fixes = []Fix{create}
	default:
		a.Cause = of + fmt.Sprintf("the registry %s refuses an anonymous pull (401 Unauthorized), and the Pod names "+
			"no imagePullSecrets.", p.host)
		a.Fixes = append(p.otherSecret(""), create,
			Fix{Description: "give the Pod an imagePullSecret whose host is exactly " + p.host})
	}
}

// copyHostFix returns the fix that stores a secret's credentials for one host under the registry's.
// A host is a Secret's content: one with other letters than hosts have is told without a command.
func (p imagePull) copyHostFix(name, was string) Fix {
	say := fmt.Sprintf("if the credentials of %s for %s are those of %s, let them be for that host instead", name, was,
		p.host)
	if !plainHost(was) || !plainHost(p.host) {
		return Fix{Description: say}
	}
	return commandFix(say, copySecretHost(p.input.Pod.Namespace, name, was, p.host))
}

// plainHost reports whether a text has only letters that stand for themselves in a shell and, but
// for the dot, in a regular expression.
func plainHost(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_/") == ""
}

// copySecretHost returns the command that copies a secret's credentials to another host without
// printing them. Both hosts are plain ones.
func copySecretHost(ns, name, was, now string) string {
	file := shellquote.Word("/tmp/" + name + ".json")
	return fmt.Sprintf(
		`umask 077; kubectl -n %[1]s get secret %[2]s -o jsonpath='{.data.\.dockerconfigjson}' | base64 -d | `+
			`sed 's#"%[3]s" *:#"%[4]s":#' > %[5]s && kubectl -n %[1]s create secret generic %[2]s `+
			`--type=kubernetes.io/dockerconfigjson --from-file=.dockerconfigjson=%[5]s --dry-run=client -o `+
			`json | kubectl replace -f - && rm %[5]s`, shellquote.Word(ns), shellquote.Word(name),
		strings.ReplaceAll(was, ".", `\.`), now, file)
}

// otherSecret returns fixes with pull secrets of the namespace that are for the image's registry.
func (p imagePull) otherSecret(instead string) []Fix {
	if p.input.NamespaceContext == nil {
		return nil
	}
	var out []Fix
	var names []string
	for name, hosts := range p.input.NamespaceContext.Registries {
		names = append(names, name)
		if name == instead || !slices.ContainsFunc(hosts,
			func(h string) bool { ok, err := images.Matches(h, p.container.spec.Image); return err == nil && ok }) {
			continue
		}
		out = append(out, editedPodFix(p.input, fmt.Sprintf("name the pull secret %s, which is for %s", name, p.host),
			func(s *corev1.PodSpec) {
				s.ImagePullSecrets = slices.DeleteFunc(slices.Clone(s.ImagePullSecrets),
					func(r corev1.LocalObjectReference) bool { return r.Name == instead })
				s.ImagePullSecrets = append(s.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
			}))
	}
	if near := nearestName(instead, names); instead != "" && near != "" && len(out) == 0 {
		out = append(out, Fix{Description: fmt.Sprintf("there is a pull secret %s: perhaps that was meant", near)})
	}
	return out
}
