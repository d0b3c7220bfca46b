package finding

import (
	"fmt"
	"regexp"
	"strings"
)

// longestWait is how many seconds the API lets a webhook take at most; a third is its default.
const longestWait = 30

// A callFailure is a way in which a call of a webhook fails, by the API server's words.
type callFailure struct {
	words  *regexp.Regexp
	field  string // of the webhook; empty: its address
	say    string // what is wrong; %s are the words' groups
	remedy string // what helps
}

// callFailures in the order they are asked; the first whose words match counts.
var callFailures = []callFailure{
	{regexp.MustCompile(`context deadline exceeded|Client\.Timeout|i/o timeout`), "timeoutSeconds",
		"it does not answer in time", "let it answer sooner, or leave more time to it"},
	{regexp.MustCompile(`certificate signed by unknown authority|x509: unknown authority`), "clientConfig.caBundle",
		"its server's certificate is not of the authority in caBundle",
		"set caBundle to the certificate of the authority that signed the server's"},
	{regexp.MustCompile(`x509: certificate is valid for (.+), not ([^\s"]+)`), "",
		"its server's certificate is for %s, and it is asked by the name %s",
		"ask it by a name that its certificate has, or make the certificate out for the name"},
	{regexp.MustCompile(`x509: cannot validate certificate for (\S+)`), "",
		"its server's certificate is not for the address %s", "ask it by a name that its certificate has"},
	{regexp.MustCompile(`x509: certificate has expired or is not yet valid`), "",
		"the time of its server's certificate is over, or has not come", "renew the server's certificate"},
	{regexp.MustCompile(`server gave HTTP response to HTTPS client`), "",
		"its server speaks HTTP, and webhooks are asked by HTTPS", "let the server speak TLS on that port"},
	{regexp.MustCompile(`connection refused`), "", "nothing listens at its address",
		"start what answers there, or mend the address"},
	{regexp.MustCompile(`no such host`), "", "its host is not known", "mend the host's name"},
	{regexp.MustCompile(`could not find the requested resource`), "",
		"its server answers 404: it has nothing at that path", "mend the path"},
	{regexp.MustCompile(`an error on the server \("(.*?)"\) has prevented`), "",
		"its server fails with 500 and the words %s", "see the log of what answers there"},
	{regexp.MustCompile(`currently unable to handle the request`), "", "its server answers 503",
		"see the log of what answers there"},
	{regexp.MustCompile(`asked for the client to provide credentials`), "", "its server answers 401",
		"let it take requests of the API server"},
	{regexp.MustCompile(`does not allow this method`), "", "its server answers 405", "mend the path"},
	{regexp.MustCompile(`get version/kind|invalid character|expected response|expected webhook response|` +
		`Object 'Kind' is missing`), "", "what answers there sends no AdmissionReview",
		"mend the address, or let the program answer with an AdmissionReview"},
}

// callFailed puts into a finding how the call of a webhook failed: the field, and what helps.
func callFailed(f *Finding, w webhookClient, index int, words string) {
	for _, x := range callFailures {
		m := x.words.FindStringSubmatch(words)
		if m == nil {
			continue
		}
		say := x.say
		for _, group := range m[1:] {
			say = strings.Replace(say, "%s", group, 1)
		}
		mend := Remedy{Say: x.remedy}
		switch x.field {
		case "":
		case "timeoutSeconds":
			f.Numbers = map[string]string{"timeoutSeconds": fmt.Sprint(w.wait)}
			f.Field, f.Value = fmt.Sprintf("webhooks[%d].timeoutSeconds", index), fmt.Sprint(w.wait)
			say += fmt.Sprintf(" (%d s, timeoutSeconds)", w.wait)
			if w.wait < longestWait {
				f.Want = fmt.Sprint(longestWait)
				mend.Run = []string{fmt.Sprintf(`kubectl patch %s %s --type=json -p '[{"op":"add","path":`+
					`"/webhooks/%d/timeoutSeconds","value":%d}]'`, f.Object.lower(), f.Object.Name, index, longestWait)}
			}
		default:
			f.Field, f.Value = fmt.Sprintf("webhooks[%d].%s", index, x.field), ""
		}
		f.Message = fmt.Sprintf("Webhook %s cannot be asked: %s. %s", w.name, say, f.Message)
		f.Remedies[0] = mend
		return
	}
}
