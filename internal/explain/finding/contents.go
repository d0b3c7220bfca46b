package finding

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	imagename "github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// certificateForm finds a TLS Secret whose certificate is not in PEM. No content is told.
func certificateForm(_ *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*corev1.Secret)
	if !ok || s.Type != corev1.SecretTypeTLS {
		return nil
	}
	const key = corev1.TLSCertKey // the key's content is nobody's to read
	if block, _ := pem.Decode(s.Data[key]); block != nil {
		return nil
	}
	f := Finding{Code: "CertificateUnreadable", Stage: StageTraffic, Object: self,
		Field: "data[" + key + "]", Numbers: map[string]string{"bytes": fmt.Sprint(len(s.Data[key]))},
		Message: fmt.Sprintf("Secret %s is of type %s, and its %s (%d bytes) is not in PEM: nobody can serve by it.",
			self.Name, s.Type, key, len(s.Data[key])),
		Remedies: []Remedy{{Say: fmt.Sprintf("write certificate and key anew from their files CERT and KEY, without "+
			"the Secret's labels and annotations: kubectl -n %s create secret tls %s --cert=CERT --key=KEY "+
			"--dry-run=client -o yaml | kubectl replace -f -", self.Namespace, shellquote.Word(self.Name))}}}
	if len(s.Data[key]) == 0 {
		f.Severity = Note // a certificate's controller makes the Secret before it has one
	}
	return []Finding{f}
}

// OneLine stands for a Secret's value that is one line with a line's end; values are not kept.
const OneLine = "…\n"

// lineEnds finds variables from a Secret's key whose one line ends with a line's end,
// as echo without -n makes it: a password with it is another one.
func lineEnds(c *Cluster, o metav1.Object, self Object) []Finding {
	return eachContainer(o, self, func(x place) []Finding {
		var out []Finding
		for i, e := range x.c.Env {
			if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
				continue
			}
			r := e.ValueFrom.SecretKeyRef
			s, ok := get[*corev1.Secret](c, "Secret", self.Namespace, r.Name)
			if !ok {
				continue
			}
			if string(s.Data[r.Key]) != OneLine {
				continue
			}
			out = append(out, Finding{Code: "LineEnd", Severity: Note, Stage: StageRun, Object: x.self,
				Field: fmt.Sprintf("%s.env[%d].valueFrom.secretKeyRef.key", x.at, i), Value: r.Key,
				Related: []Object{objectOf("Secret", s)},
				Message: fmt.Sprintf("Variable %s of container %s is key %s of "+
					"Secret %s, whose one line ends with a line's end: it is part of the value. As a password that is "+
					"another one.", e.Name, x.c.Name, r.Key, s.Name)})
		}
		return out
	})
}

// pullHosts finds a pull secret with credentials for other registries than those of the images.
// Only the hosts of the Secret are told.
func pullHosts(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil {
		return nil
	}
	var images, wanted []string
	for _, x := range slices.Concat(spec.InitContainers, spec.Containers) {
		images = append(images, x.Image)
	}
	for _, x := range spec.EphemeralContainers {
		images = append(images, x.Image)
	}
	for _, v := range spec.Volumes {
		if v.Image != nil {
			images = append(images, v.Image.Reference)
		}
	}
	for _, x := range images {
		if named, err := imagename.ParseNormalizedNamed(x); err == nil && !slices.Contains(wanted,
			imagename.Domain(named)) {
			wanted = append(wanted, imagename.Domain(named))
		}
	}
	var out []Finding
	for i, r := range spec.ImagePullSecrets {
		s, ok := get[*corev1.Secret](c, "Secret", self.Namespace, r.Name)
		if !ok || s.Type != corev1.SecretTypeDockerConfigJson {
			continue
		}
		var config struct {
			Auths map[string]json.RawMessage `json:"auths"`
		}
		if json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &config) != nil || len(config.Auths) == 0 {
			continue
		}
		hosts := slices.Sorted(maps.Keys(config.Auths))
		if len(wanted) == 0 || slices.ContainsFunc(hosts, func(h string) bool {
			return slices.ContainsFunc(wanted, func(w string) bool { return hostMatches(h, w) })
		}) {
			continue
		}
		out = append(out, Finding{Code: "CredentialsForOthers", Severity: Note, Stage: StageImage, Object: self,
			Field: fmt.Sprintf("%s.imagePullSecrets[%d].name", at, i), Value: r.Name,
			Related: []Object{objectOf("Secret",
				s)}, Message: fmt.Sprintf("Pull secret %s has credentials for %s, and the images are of %s: none "+
				"is sent.",
				r.Name, joined(plainHosts(hosts)), joined(wanted))})
	}
	return out
}

// plainHosts are hosts without the user and password that somebody may have written before them.
func plainHosts(hosts []string) []string {
	out := slices.Clone(hosts)
	for i, h := range out {
		if j := strings.LastIndex(h, "@"); j >= 0 {
			out[i] = h[j+1:]
		}
	}
	return out
}

// hostMatches reports whether credentials of a host, as a Docker configuration writes it, are for
// a registry.
func hostMatches(host, registry string) bool {
	for _, scheme := range []string{"https://", "http://"} {
		host = strings.TrimPrefix(host, scheme)
	}
	host, _, _ = strings.Cut(host, "/")
	return host == registry || strings.Contains(host, "*") || registry == "docker.io" && strings.HasSuffix(host,
		"docker.io")
}

// octal finds modes of files that were written in octal and read as decimal: 400 is 0620.
func octal(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil {
		return nil
	}
	var out []Finding
	look := func(field string, mode *int32) {
		if mode == nil {
			return
		}
		text := fmt.Sprint(*mode)
		meant, err := strconv.ParseInt(text, 8, 32)
		if err != nil || len(text) != 3 || !slices.Contains(usualModes, meant) || slices.Contains(usualModes,
			int64(*mode)) {
			return
		}
		f := Finding{Code: "ModeDecimal", Severity: Threat, Stage: StageVolume, Object: self, Field: field, Value: text,
			Want: fmt.Sprint(meant), Numbers: map[string]string{"mode": fmt.Sprintf("%04o", *mode),
				"meant": fmt.Sprintf("%04o", meant)}, Message: fmt.Sprintf("%s is %s, which is mode %04o: JSON has no "+
				"octal numbers. Mode %04o is %d there.", field, text, *mode, meant, meant)}
		f.setTo(c, f.Want)
		out = append(out, f)
	}
	items := func(field string, list []corev1.KeyToPath) {
		for i, item := range list {
			look(fmt.Sprintf("%s.items[%d].mode", field, i), item.Mode)
		}
	}
	for i, v := range spec.Volumes {
		field := fmt.Sprintf("%s.volumes[%d]", at, i)
		switch {
		case v.Secret != nil:
			look(field+".secret.defaultMode", v.Secret.DefaultMode)
			items(field+".secret", v.Secret.Items)
		case v.ConfigMap != nil:
			look(field+".configMap.defaultMode", v.ConfigMap.DefaultMode)
			items(field+".configMap", v.ConfigMap.Items)
		case v.Projected != nil:
			look(field+".projected.defaultMode", v.Projected.DefaultMode)
		case v.DownwardAPI != nil:
			look(field+".downwardAPI.defaultMode", v.DownwardAPI.DefaultMode)
		}
	}
	return out
}

// usualModes are modes that people give files.
var usualModes = []int64{0o400, 0o440, 0o444, 0o500, 0o550, 0o555, 0o600, 0o640, 0o644, 0o660, 0o664, 0o700, 0o750,
	0o755, 0o770, 0o775, 0o777}
