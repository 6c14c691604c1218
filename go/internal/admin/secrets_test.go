package admin

import (
	"testing"

	pb "sluice/proto/sluice/v1"
)

func TestASecretThatARequestCarriesIsNotShown(t *testing.T) {
	e := &pb.EventDetail{
		Target: "/hooks/a?x=1&key=hunter2&k%65y=hunter2&y=key&key",
		Headers: []*pb.Header{
			{Name: []byte("x-gitlab-TOKEN"), Value: []byte("hunter2")},
			{Name: []byte("X-Gitlab-Event"), Value: []byte("Push Hook")},
		},
	}
	Carried{Headers: []string{"X-Gitlab-Token"}, Parameters: []string{"key"}}.conceal(e)
	const want = "/hooks/a?x=1&key=[secret]&k%65y=[secret]&y=key&key=[secret]"
	if e.GetTarget() != want {
		t.Errorf("the target is %s", e.GetTarget())
	}
	if string(e.Headers[0].Value) != concealed || string(e.Headers[1].Value) != "Push Hook" {
		t.Errorf("the headers are %v", e.GetHeaders())
	}
	e.Target = "/hooks/a"
	if (Carried{Parameters: []string{"a"}}).conceal(e); e.GetTarget() != "/hooks/a" {
		t.Errorf("the target is %s", e.GetTarget())
	}
}
