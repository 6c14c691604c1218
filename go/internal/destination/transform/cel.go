package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"

	"sluice/go/internal/destination"
)

// errMissing is the evaluation's that asked for something that the event does not have.
var errMissing = errors.New("the event has no such key or index")

// celProgram is one compiled expression.
type celProgram struct {
	program cel.Program
	source  *ast.SourceInfo // for places in errors
}

// celEnvironment is the same for all expressions; making it takes a while.
var celEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("event", cel.DynType),
		cel.Variable("body", cel.BytesType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.ListType(cel.StringType))),
		cel.Variable("source", cel.StringType),
		cel.Variable("id", cel.StringType),
		cel.Variable("method", cel.StringType),
		cel.Variable("target", cel.StringType),
		cel.Variable("received", cel.TimestampType),
		cel.Variable("attempt", cel.IntType),
		cel.Macros(headerMacro),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateTimestampLiterals()),
		cel.OptionalTypes(),
		// Each of these versions bounds or counts the cost of what it does.
		ext.Strings(ext.StringsVersion(5)),
		ext.Encoders(),
		ext.Math(),
		ext.Bindings(),
		ext.TwoVarComprehensions(),
	)
})

// literalFunctions do work that is the product of what they are given, in one step that no cost
// limit stops. So only one factor of it may be the event's: all their arguments are literals.
var literalFunctions = []string{"indexOf", "join", "lastIndexOf", "matches", "replace"}

// checkLiterals refuses an expression that calls one of them otherwise.
func checkLiterals(tree *ast.AST) error {
	var err error
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !slices.Contains(literalFunctions, e.AsCall().FunctionName()) {
			return
		}
		call := e.AsCall()
		args := call.Args()
		if !call.IsMemberFunction() && len(args) > 0 {
			args = args[1:] // matches(text, pattern)
		}
		for _, arg := range args {
			if arg.Kind() != ast.LiteralKind {
				at := tree.SourceInfo().GetStartLocation(arg.ID())
				err = fmt.Errorf("line %d, column %d: %s takes literals only, not what an event holds",
					at.Line(), at.Column()+1, call.FunctionName())
			}
		}
	}))
	return err
}

// headerMacro makes header("Name") of `"name" in headers ? headers["name"][0] : ""`.
var headerMacro = cel.GlobalMacro("header", 1,
	func(factory cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		name, ok := args[0], false
		if name.Kind() == ast.LiteralKind {
			var text types.String
			if text, ok = name.AsLiteral().(types.String); ok {
				name = factory.NewLiteral(types.String(strings.ToLower(string(text))))
			}
		}
		if !ok {
			return nil, factory.NewError(args[0].ID(), "header() takes one name in quotes")
		}
		headers := func() ast.Expr { return factory.NewIdent("headers") }
		first := factory.NewCall(operators.Index,
			factory.NewCall(operators.Index, headers(), name), factory.NewLiteral(types.Int(0)))
		return factory.NewCall(operators.Conditional,
			factory.NewCall(operators.In, factory.Copy(name), headers()),
			first, factory.NewLiteral(types.String(""))), nil
	})

// compileCEL reads an expression; condition says that it has to give a bool.
func compileCEL(text string, condition bool) (*celProgram, error) {
	env, err := celEnvironment()
	if err != nil {
		return nil, err
	}
	tree, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, complaint(issues)
	}
	if kind := tree.OutputType(); condition && !kind.IsExactType(cel.BoolType) &&
		!kind.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("line 1, column 1: gives a %s, want a bool", kind)
	}
	if err := checkLiterals(tree.NativeRep()); err != nil {
		return nil, err
	}
	program, err := env.Program(tree, cel.CostLimit(costMax), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, err
	}
	return &celProgram{program: program, source: tree.NativeRep().SourceInfo()}, nil
}

// complaint gives the first fault: the others often follow from it.
func complaint(issues *cel.Issues) error {
	e := issues.Errors()[0]
	message := strings.TrimSuffix(e.Message, " (in container '')")
	return fmt.Errorf("line %d, column %d: %s", e.Location.Line(), e.Location.Column()+1, message)
}

func (p *celProgram) run(r *destination.Request) (any, error) {
	v := &variables{request: r}
	value, _, err := p.program.Eval(v)
	switch {
	case err == nil:
		return value, nil
	case v.failed != nil:
		return nil, v.failed
	}
	return nil, p.blame(err)
}

// safeMessages are what an error of an evaluation may begin with. The rest of it may be the
// event's.
var safeMessages = []string{
	"no such overload", "division by zero", "modulus by zero", "integer overflow",
	"unsigned integer overflow", "duration overflow", "timestamp overflow",
	"NaN values cannot be ordered", "type conversion error",
}

// blame says what stopped an evaluation and where, without the values that it met.
func (p *celProgram) blame(err error) error {
	var ended interpreter.EvalCancelledError
	if errors.As(err, &ended) {
		return fmt.Errorf("the expression took more than %d units of work with this event", costMax)
	}
	text := err.Error()
	cause := errors.New("the evaluation failed")
	for _, message := range safeMessages {
		if strings.HasPrefix(text, message) {
			cause = errors.New(message)
		}
	}
	for _, message := range []string{"no such key", "index out of bounds", "no such attribute"} {
		if strings.HasPrefix(text, message) {
			cause = errMissing
		}
	}
	// The library has one value for several faults, whose place is that of whoever met it first.
	var fault *types.Err
	if errors.As(err, &fault) && ref.Val(fault) != types.NoSuchOverloadErr() {
		if at := p.source.GetStartLocation(fault.NodeID()); at.Line() > 0 {
			return fmt.Errorf("line %d, column %d: %w", at.Line(), at.Column()+1, cause)
		}
	}
	return cause
}

// truth reads the value of a condition, which may only be known when it is there.
func truth(value any) (bool, error) {
	if b, ok := value.(types.Bool); ok {
		return bool(b), nil
	}
	kind := "value"
	if v, ok := value.(ref.Val); ok {
		kind = v.Type().TypeName()
	}
	return false, fmt.Errorf("filter: gave a %s, want a bool", kind)
}
