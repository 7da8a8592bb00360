"""Small files for cells to read."""

import json
import pickle
import random
import sqlite3

import numpy as np
import pandas as pd


def table(seed, rows):
    r = random.Random(seed)
    t = pd.DataFrame({
        "x": [r.randint(1, 60) for _ in range(rows)], "y": [round(r.uniform(1, 50), 2) for _ in range(rows)],
        "a": [r.randint(1, 9) for _ in range(rows)], "b": [r.choice((1, 1, 2)) for _ in range(rows)],
        "c": [round(r.uniform(0, 5), 3) for _ in range(rows)],
        "k": [r.choice(("red", "green", "blue")) for _ in range(rows)],
        "d": ["2021-%02d-%02d" % (r.randint(1, 12), r.randint(1, 28)) for _ in range(rows)]})
    t.loc[t.index[:: max(7, rows // 4)], "y"] = np.nan
    return t


def fees(count):
    r = random.Random(5)
    return [{"ID": i, "card_scheme": r.choice(("GlobalCard", "NexPay")), "account_type": r.choice(([], ["H"], ["R", "D"], ["F"])),
             "is_credit": r.choice((True, False, None)), "fixed_amount": round(r.random() / 5, 2), "rate": r.randint(10, 90),
             "merchant_category_code": r.choice(([], [5812, 5813], [8062])), "aci": r.choice(([], ["B"], ["A", "C"]))}
            for i in range(1, count + 1)]


def write(directory):
    def at(name):
        return directory + "/" + name
    for seed, name in enumerate(("a.csv", "b.csv", "c.csv", "d.csv")):
        table(seed, 30 + seed).to_csv(at(name), index=False)
    table(7, 24).to_csv(at("semi.csv"), index=False, sep=";")
    with open(at("c.txt"), "w") as f:
        f.write("3 14\n15 92\n65 35\n89 79\n")
    with open(at("note.txt"), "w") as f:
        f.write("alpha: 12\nbeta: 30\ngamma: 7\n")
    with open(at("c.json"), "w") as f:
        json.dump({"rows": [{"name": "one", "v": 4}, {"name": "two", "v": 9}], "total": 13}, f)
    with open(at("records.json"), "w") as f:
        json.dump([{"name": "n%d" % i, "v": i * i, "in": {"w": i + 2}} for i in range(8)], f)
    with open(at("fees.json"), "w") as f:
        json.dump(fees(60), f)
    with open(at("merchant_category_codes.csv"), "w") as f:
        f.write(",mcc,description\n0,5812,Eating Places and Restaurants\n1,5813,Bars\n2,8062,Hospitals\n")
    with open(at("c.pkl"), "wb") as f:
        pickle.dump({"v": [2, 3, 5], "t": table(9, 12)}, f)
    np.save(at("c.npy"), np.arange(12.0).reshape(4, 3))
    with pd.ExcelWriter(at("c.xlsx"), engine="openpyxl") as w:
        table(11, 14).to_excel(w, sheet_name="Sheet1", index=False)
        table(12, 16).to_excel(w, sheet_name="Sheet2", index=False)
    table(13, 15).to_parquet(at("c.parquet"))
    with open(at("c.html"), "w") as f:
        f.write(table(14, 8).to_html(index=False))
    con = sqlite3.connect(at("c.db"))
    table(15, 18).to_sql("t", con, index=False)
    con.commit()
    con.close()
    with open(at("strange.py"), "w") as f:
        f.write("class Thing:\n    def __init__(self):\n        self.kept = []\n    def work(self, values):\n"
                "        values.append(len(values))\n        self.kept.append(sum(values))\n"
                "        return self\ndef make():\n    return Thing()\ndef scale(t):\n    t['x'] = t['x'] * 2\n"
                "    t['y'] = 1.5\n")
